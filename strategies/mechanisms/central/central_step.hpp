#pragma once
#include "strategies/collectives/emitter.hpp"
#include "strategies/mechanisms/central/central_plan.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {

/// Base class of the programs of a center and of its replicas. It emits their messages, kernels and waits.
class CentralStep : public CoroutineProgram {
 public:
  CentralStep(const CentralPlan&, const PassTables&, const CentralNames&, std::vector<Actor> peers);
  /// Makes a step whose programs have other streams than those of a center and its replicas.
  CentralStep(const CentralPlan&, const PassTables&, const CentralNames&, std::vector<Actor> peers, int streams,
              bool dynamic);

  static constexpr Stream compute = 0, receiving = 1, sending = 2;
  /// Number of streams for sends to `peers` peers. Sends to one peer are in order; sends to different peers overlap.
  static int send_streams(std::size_t peers) { return static_cast<int>(std::min<std::size_t>(peers, kMaxStreams - 2)); }

 protected:
  /// The content of a message. It is part of the tag, so that messages of different content cannot be confused.
  enum class Content : std::uint8_t { input, parameters, output, output_gradient, gradients, over };

  const CentralPlan& plan_;
  const TrainingPlan& step_;
  const PassTables& tables_;
  const CentralNames& words_;
  const StagePlan& stage_;
  Emitter out_;

  int layers() const { return static_cast<int>(step_.network->layers.size()); }
  std::size_t peers() const { return slots().size(); }
  Bytes gradient_bytes(std::size_t bucket) const { return stage_.buckets[bucket].elements * step_.gradient_element; }
  Bytes parameter_bytes(std::size_t bucket) const { return stage_.buckets[bucket].elements * step_.parameter_element; }
  Stream stream_to(std::size_t peer) const {
    return static_cast<Stream>(sending + peer % static_cast<std::size_t>(send_streams(peers())));
  }

  /// Refers to the whole buffer; empty without values.
  BufferRef whole_buffer(TrainingBuffer::Kind, std::size_t index = 0) const;
  Ops book_static_memory(const StaticMemory&);
  Ops overhead();
  const Op& book_memory(double bytes, MemoryClass);
  /// Begins a round. The tags of messages contain its number.
  void next_round() { ++round_; }
  /// The message leaves when all computation emitted so far and the previous sends on its stream have ended.
  const Op& send(Content, std::size_t peer, Bytes, std::size_t index, BufferRef from);
  /// `after_compute`: receives only after all computation emitted so far.
  const Op& receive(Content, std::size_t peer, std::size_t index, Action, BufferRef into, bool after_compute);
  const Op& work(const Work&, GroupId, NameId);
  const Op& work(const Op& kernel);  ///< emits a kernel that is complete but for its waits
  /// The mark of the end of one of the actor's steps. The caller emits it.
  Op step_over() const;
  /// The next operation on the compute stream waits for `dep`, too.
  void wait_for(Dep dep) { waits_.push_back(dep); }
  /// Emits marks that take up all waits. The next operation then waits only for the one before it.
  Ops drain_waits();
  Ops await_sends();
  Ops await_messages();  ///< waits for all receives so far
  /// Sends all buckets of parameters to all peers. The last buckets come first: they belong to the first layers, which
  /// the forward pass needs first.
  Ops give_parameters();
  /// Receives a bucket of parameters from the center.
  Ops take_parameters(std::size_t bucket);
  /// Begins a message whose sender does not wait for the receiver. The caller completes and emits it.
  Op& put_message(Kind, Stream, NameId, GroupId, std::size_t peer, Tag);
  template <class Call>
  const Op& call(Call what, std::size_t index, int micro_batch = 0) {
    return emit_call(compute, effect_of(what, {static_cast<int>(index), micro_batch, kEndOfPass}));
  }
  template <class Call>
  const Op& call_on(Stream stream, Call what, std::size_t index) {
    return emit_call(stream, effect_of(what, CallArguments::of_bucket(index)));
  }

  /// Kernels of a pass: those of the loss, those of the network without the loss, or all.
  enum class Part : std::uint8_t { all, loss, network };
  bool is_in_part(const PassTable&, std::size_t item, Pass, int layer, Part) const;
  const Op& kernel(const PassItem&, double times = 1);
  void apply_waits(Op&);

 private:
  std::vector<Dep> waits_;
  std::uint32_t round_ = 0;

  const Op& emit_call(Stream, const Effect&);
  Op& message(Kind, Stream, Content, std::size_t peer, std::size_t index);
};

/// A worker that receives its parameters from another actor. The forward pass computes each layer as soon as its
/// parameters have arrived. Each bucket of gradients is sent as soon as the backward pass has computed it or, without
/// overlap, at the end of the step.
class WorkerStep : public CentralStep {
 public:
  using CentralStep::CentralStep;

 protected:
  /// All passes of a step, and its pushes.
  Ops passes();
  /// Makes the next computation wait for the layer's parameters.
  virtual Ops await_parameters(int layer) = 0;
  /// Pushes the computed gradients of a bucket. It is called in the order of the buckets.
  virtual Ops push(std::size_t bucket) = 0;

 private:
  std::size_t next_bucket_ = 0;

  Ops pass(Pass, int layer, int micro_batch);
  Ops push_ready(int layer, int kernel);
};

}  // namespace trainyard
