#pragma once
#include <cstdint>
#include <functional>

#include "sim/op.hpp"
#include "strategies/plan/training_buffers.hpp"

namespace trainyard {

class Values;

// How the schedule of a training carries values along. Programs say here what is computed, as calls that operations
// carry; who executes values (a CallDispatcher) computes it. `sim` sees a number and two opaque references.

/// The work that a training program asks of whoever executes values. Unless said otherwise `index` is the bucket.
///
/// Passes (forward to backward_weights): `index` the layer's number in the network, `micro_batch`, `exchange` the number
/// (in the pass' list) of the exchange that is about to start and whose buffer is to be filled, or kEndOfPass; `buffer`
/// the number of the buffer of the pass' first exchange. Exchange i works on buffer + 2 i (an all-to-all reads its input
/// from the one after that). When a later call of the pass begins, every exchange whose `needed_by` is at most the
/// `after` of that call's exchange is over, and at kEndOfPass all are.
enum class TrainingCall : std::uint16_t {
  forward = 1,
  backward,          ///< gradients by the input and by the weights, which are added to those of earlier micro-batches
  backward_input,    ///< gradients by the input alone
  backward_weights,  ///< those of the weights, later
  fill_bucket,       ///< index: the buffer of gradients into which those of its bucket are copied
  keep_gradients,    ///< the other way, after an all-reduce; after a reduce-scatter only the rank's own block is valid
  update,            ///< the optimizer, on what the rank holds. index: which of the sets of buckets has the gradients
  fill_parameters,   ///< the rank's own block of the bucket's parameters into its buffer of parameters
  take_parameters,   ///< the other way, all blocks
  drop_parameters,   ///< those of other ranks are not to be used any more
  fill_tied,         ///< gradient of a tied weight, of which first and last stage have one each, into buffer `tied`
  take_tied,         ///< the other way
  fill_partial,      ///< gradients that are `ParameterTensor::partial`, all of the rank's, into buffer `partial`
  take_partial,      ///< the other way
  // Offload, each of the rank's own share of a bucket:
  fill_share,            ///< gradients that leave the GPU, into `gradient_share`
  keep_on_host,          ///< those that came into `host_gradients`, to those of earlier micro-batches
  read_states,           ///< the optimizer's, from drives
  update_on_host,        ///< the optimizer; new parameters into `host_parameters`
  write_states,          ///< back to drives, with the new parameters where they lie there too
  fill_host_parameters,  ///< what the host has, or reads from drives, into `host_parameters`
  take_own,              ///< parameters that came into `own_parameters`
  // Offload of activations; index: the layer's number in the network.
  activations_to_host,  ///< what the forward pass of a micro-batch has kept leaves the GPU
  activations_to_gpu,   ///< it comes back
  // Gossip:
  give_replica,  ///< all parameters of the replica into buffer `replica` 0
  mix_replicas,  ///< index: that many neighbours, with whose parameters, in `replica` 1 …, the replica takes the average
  // Compression, in the bucket's buffer of gradients (that of its parameters has what an all-to-all sends); exchange: the
  // round.
  encode,  ///< what the rank puts into that exchange, from its gradients or from what the exchange before has left
  decode,  ///< the sum of all ranks' gradients, from what the last exchange has left
};

/// What a call is about.
struct CallArguments {
  int index = 0;
  int micro_batch = 0;
  int exchange = 0;
  std::uint16_t buffer = 0;

  static CallArguments of_bucket(std::size_t bucket) { return {static_cast<int>(bucket)}; }
  std::size_t bucket() const { return static_cast<std::size_t>(index); }
};
constexpr int kEndOfPass = 0xffff;  ///< of CallArguments::exchange

/// Throws InternalError for arguments that do not fit into 16 bits each.
Effect call_effect(std::uint16_t call, const CallArguments&);
CallArguments arguments_of(const Effect&);

/// Calls are numbered across all their enumerations.
template <class Call>
Effect effect_of(Call call, const CallArguments& arguments = {}) {
  return call_effect(static_cast<std::uint16_t>(call), arguments);
}

/// Brings the calls of a schedule to the functions that carry them out.
class CallDispatcher {
 public:
  using Function = std::function<void(Actor, const CallArguments&)>;
  /// The values must live until the run has ended.
  explicit CallDispatcher(Values& values) : values_(values) {}

  template <class Call>
  void on(Call call, Function function) {
    add(static_cast<std::uint16_t>(call), std::move(function));
  }

 private:
  Values& values_;
  void add(std::uint16_t call, Function);
};

}  // namespace trainyard
