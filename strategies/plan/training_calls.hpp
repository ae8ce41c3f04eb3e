#pragma once
#include <cstdint>
#include <functional>

#include "sim/op.hpp"
#include "strategies/plan/training_buffers.hpp"

namespace trainyard {

class Values;

// Calls carry values along the schedule of a training. A program attaches a call to an operation to name what is
// computed there; the executor of values (a CallDispatcher) computes it. `sim` sees only a number and two opaque
// references.

/// The work that a training program asks of the executor of values. Unless noted otherwise, `index` is the bucket.
///
/// Passes (forward to backward_weights): `index` is the layer's number in the network. `exchange` is the number, in the
/// pass's list, of the exchange that is about to start and whose buffer must be filled, or kEndOfPass. `buffer` is the
/// number of the buffer of the pass's first exchange; exchange i works on buffer + 2 i (an all-to-all reads its input
/// from the one after that). When a later call of the pass begins, every exchange whose `needed_by` is at most the
/// `after` of that call's exchange is complete; at kEndOfPass all are.
enum class TrainingCall : std::uint16_t {
  forward = 1,
  backward,          ///< gradients of the input, and of the weights, which are added to those of earlier micro-batches
  backward_input,    ///< gradients of the input alone
  backward_weights,  ///< gradients of the weights alone, later
  fill_bucket,       ///< copies the bucket's gradients into a buffer; index: the buffer of gradients
  /// Copies them back after an all-reduce; after a reduce-scatter only the rank's own block is valid.
  keep_gradients,
  update,           ///< runs the optimizer on the rank's states; index: the set of buckets that has the gradients
  fill_parameters,  ///< copies the rank's own block of the bucket's parameters into its buffer of parameters
  take_parameters,  ///< copies all blocks back
  drop_parameters,  ///< parameters of other ranks must not be used any more
  fill_tied,        ///< copies the gradient of a tied weight (first and last stage have one each) into buffer `tied`
  take_tied,        ///< copies it back
  fill_partial,     ///< copies all `ParameterTensor::partial` gradients of the rank into buffer `partial`
  take_partial,     ///< copies them back
  // Offload. Each call concerns the rank's own share of a bucket:
  fill_share,            ///< copies gradients that leave the GPU into `gradient_share`
  keep_on_host,          ///< adds the gradients in `host_gradients` to those of earlier micro-batches
  read_states,           ///< reads optimizer states from drives
  update_on_host,        ///< runs the optimizer, and writes new parameters into `host_parameters`
  write_states,          ///< writes states back to drives, with the new parameters if these are kept there too
  fill_host_parameters,  ///< copies parameters of the host, or reads them from drives, into `host_parameters`
  take_own,              ///< takes the parameters that arrived in `own_parameters`
  // Offload of activations; index: the layer's number in the network.
  activations_to_host,  ///< activations that a forward pass has kept leave the GPU
  activations_to_gpu,   ///< these activations return
  // Gossip:
  give_replica,  ///< copies all parameters of the replica into buffer `replica` 0
  mix_replicas,  ///< averages the replica with `index` neighbours, whose parameters are in `replica` 1 …
  // Compression, in the bucket's buffer of gradients (an all-to-all sends from its buffer of parameters); exchange:
  // the round.
  /// Computes the rank's input to that exchange from its gradients, or from the result of the previous exchange.
  encode,
  decode,  ///< computes the sum of all ranks' gradients from the result of the last exchange
};

/// Arguments of a call.
struct CallArguments {
  int index = 0;
  int micro_batch = 0;
  int exchange = 0;
  std::uint16_t buffer = 0;

  static CallArguments of_bucket(std::size_t bucket) { return {static_cast<int>(bucket)}; }
  std::size_t bucket() const { return static_cast<std::size_t>(index); }
};
constexpr int kEndOfPass = 0xffff;  ///< value of CallArguments::exchange

/// Throws InternalError if an argument does not fit into 16 bits.
Effect call_effect(std::uint16_t call, const CallArguments&);
CallArguments arguments_of(const Effect&);

/// Packs a call into an operation's effect. Calls are numbered across all their enumerations.
template <class Call>
Effect effect_of(Call call, const CallArguments& arguments = {}) {
  return call_effect(static_cast<std::uint16_t>(call), arguments);
}

/// Routes the calls of a schedule to the functions that execute them.
class CallDispatcher {
 public:
  using Function = std::function<void(Actor, const CallArguments&)>;
  /// The values must live until the run has ended.
  explicit CallDispatcher(Values& values) : values_(values) {}

  template <class Call>
  void register_call(Call call, Function function) {
    add(static_cast<std::uint16_t>(call), std::move(function));
  }

 private:
  Values& values_;
  void add(std::uint16_t call, Function);
};

}  // namespace trainyard
