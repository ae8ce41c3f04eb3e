#pragma once
#include "strategies/collectives/emitter.hpp"
#include "strategies/mechanisms/central/central_plan.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {

/// What the programs of a center and of its replicas are made of.
class CentralStep : public CoroutineProgram {
 public:
  CentralStep(const CentralPlan&, const PassTables&, const CentralWords&, std::vector<Actor> peers);
  /// With other streams than those of a center and its replicas.
  CentralStep(const CentralPlan&, const PassTables&, const CentralWords&, std::vector<Actor> peers, int streams,
              bool dynamic);

  static constexpr Stream compute = 0, receiving = 1, sending = 2;
  /// Of sends to that many peers: those to one are in order, those to different ones go on side by side.
  static int send_streams(std::size_t peers) { return static_cast<int>(std::min<std::size_t>(peers, kMaxStreams - 2)); }

 protected:
  /// What a message is: senders and receivers count each kind alike, so that they are told apart.
  enum class Content : std::uint8_t { input, parameters, output, output_gradient, gradients, over };

  const CentralPlan& plan_;
  const TrainingPlan& step_;
  const PassTables& tables_;
  const CentralWords& words_;
  const StagePlan& stage_;
  Emitter out_;

  int layers() const { return static_cast<int>(step_.network->layers.size()); }
  std::size_t peers() const { return slots().size(); }
  Bytes gradient_bytes(std::size_t bucket) const { return stage_.buckets[bucket].elements * step_.gradient_element; }
  Bytes parameter_bytes(std::size_t bucket) const { return stage_.buckets[bucket].elements * step_.parameter_element; }
  Stream stream_to(std::size_t peer) const {
    return static_cast<Stream>(sending + peer % static_cast<std::size_t>(send_streams(peers())));
  }

  /// None without values.
  BufferRef whole(TrainingBuffer::Kind, std::size_t index = 0) const;
  Ops hold(const StaticMemory&);
  Ops overhead();
  const Op& holds(double bytes, MemoryClass);
  /// A number for all messages of a kind that go out, or come in, between now and the next one.
  void next_round() { ++round_; }
  /// Moves as soon as what has been computed is there, and those before it on its stream have gone.
  const Op& send(Content, std::size_t peer, Bytes, std::size_t index, BufferRef from);
  /// After what has been computed so far where `after_compute`.
  const Op& receive(Content, std::size_t peer, std::size_t index, Action, BufferRef into, bool after_compute);
  const Op& work(const Work&, GroupId, NameId);
  const Op& work(const Op& kernel);  ///< one made ready
  /// That one of the actor's steps has ended; to be emitted.
  Op step_over() const;
  /// What is computed next waits for this too.
  void wait_for(Dep dep) { waits_.push_back(dep); }
  void wait_for_sends();
  Ops drain_waits();
  template <class Call>
  const Op& call(Call what, std::size_t index, int micro_batch = 0) {
    return emit_call(compute, effect_of(what, {static_cast<int>(index), micro_batch, kEndOfPass}));
  }
  template <class Call>
  const Op& call_on(Stream stream, Call what, std::size_t index) {
    return emit_call(stream, effect_of(what, CallArguments::of_bucket(index)));
  }

  /// Which kernels of a pass: the loss, those before (forward) or after it (backward), or all.
  enum class Part : std::uint8_t { all, loss, network };
  bool wanted(const PassTable&, std::size_t item, Pass, int layer, Part) const;
  const Op& kernel(const PassItem&, double times = 1);
  void apply_waits(Op&);

 private:
  std::vector<Dep> waits_;
  std::uint32_t round_ = 0;

  const Op& emit_call(Stream, const Effect&);
  Op& message(Kind, Stream, Content, std::size_t peer, std::size_t index);
};

/// Of an actor that takes no part.
std::unique_ptr<Program> idle_program();

}  // namespace trainyard
