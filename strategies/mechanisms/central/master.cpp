// PyTorch's DataParallel (torch/nn/parallel: scatter, replicate, parallel_apply, gather): the first GPU of a node, the
// master, holds the model. In every forward pass it sends parts of the batch and copies of the parameters to the other
// GPUs. It gathers their outputs, computes the loss on them, and in the backward pass sums the gradients of the copies.
// It sends the copies one by one, as PyTorch does without NCCL. All of this happens for each micro-batch.
#include "sim/index.hpp"
#include "strategies/mechanisms/central/central_mechanism.hpp"
#include "strategies/mechanisms/central/central_step.hpp"

namespace trainyard {
namespace {

using Buffer = TrainingBuffer::Kind;

/// The passes over the layers, for the master and for the copies.
class ReplicaPasses : public CentralStep {
 public:
  using CentralStep::CentralStep;

 protected:
  Part own_part() const { return plan_.loss_on_master ? Part::network : Part::all; }

  Ops pass(Pass what, int layer, int micro_batch, Part part, double times) {
    const PassTable& table = tables_.pass(what, layer, micro_batch == 0, false);
    for (std::size_t i = 0; i < table.items.size(); ++i)
      if (is_in_part(table, i, what, layer, part)) co_yield kernel(table.items[i], times);
  }
  Ops forward(int micro_batch) {
    for (int layer = 0; layer < layers(); ++layer) {
      co_yield pass(Pass::forward, layer, micro_batch, own_part(), 1);
      if (step_.values) co_yield call(TrainingCall::forward, static_cast<std::size_t>(layer), micro_batch);
    }
    if (step_.values) co_yield call(CentralCall::fill_output, 0, micro_batch);
  }
  Ops backward(int micro_batch) {
    for (int layer = layers() - 1; layer >= 0; --layer) {
      co_yield pass(Pass::backward, layer, micro_batch, own_part(), 1);
      if (step_.values) co_yield call(TrainingCall::backward, static_cast<std::size_t>(layer), micro_batch);
    }
    for (std::size_t b = 0; b < stage_.buckets.size() && step_.values; ++b)
      co_yield call(TrainingCall::fill_bucket, b, micro_batch);
  }
};

class MasterCopy : public ReplicaPasses {
 public:
  MasterCopy(const CentralPlan& plan, const PassTables& tables, const CentralNames& words)
      : ReplicaPasses(plan, tables, words, {plan.center}) {}

 protected:
  Ops run() override {
    co_yield book_static_memory(stage_.memory);
    for (int step = 0; step < step_.steps; ++step) {
      out_.begin_sample(static_cast<std::uint32_t>(step));
      for (int micro_batch = 0; micro_batch < step_.micro_batches; ++micro_batch) co_yield share(micro_batch);
      if (step_.marks_steps) co_yield out_.emit(step_over());
    }
  }

 private:
  Ops share(int micro_batch) {
    next_round();
    co_yield receive(Content::input, 0, 0, Action::none, {}, true);
    for (std::size_t b = stage_.buckets.size(); b-- > 0;) co_yield take_parameters(b);
    co_yield await_messages();
    co_yield forward(micro_batch);
    co_yield send(Content::output, 0, plan_.output, 0, whole_buffer(Buffer::outputs));
    if (plan_.loss_on_master) {
      co_yield receive(Content::output_gradient, 0, 0, Action::copy, whole_buffer(Buffer::output_gradients), true);
      co_yield await_messages();
    }
    co_yield backward(micro_batch);
    for (std::size_t b = 0; b < stage_.buckets.size(); ++b)
      co_yield send(Content::gradients, 0, gradient_bytes(b), b, whole_buffer(Buffer::gradients, b));
    co_yield await_sends();
  }
};

class Master : public ReplicaPasses {
 public:
  Master(const CentralPlan& plan, const PassTables& tables, const CentralNames& words)
      : ReplicaPasses(plan, tables, words, consecutive_numbers(Actor{1}, plan.replicas - 1)) {}

 protected:
  Ops run() override {
    co_yield book_static_memory(plan_.memory);
    for (int step = 0; step < step_.steps; ++step) {
      out_.begin_sample(static_cast<std::uint32_t>(step));
      co_yield overhead();
      for (int micro_batch = 0; micro_batch < step_.micro_batches; ++micro_batch) {
        next_round();
        co_yield hand_out();
        co_yield forward(micro_batch);
        co_yield gather_outputs(micro_batch);
        co_yield backward(micro_batch);
        co_yield collect_gradients();
      }
      co_yield work(stage_.optimizer, words_.optimizer, words_.update);
      if (step_.values) co_yield call(TrainingCall::update, 0);
      if (step_.marks_steps) co_yield out_.emit(step_over());
    }
  }

 private:
  double all_outputs() const { return (plan_.output * plan_.replicas).value; }
  BufferRef part(Buffer kind, std::size_t peer) const {
    return {number_of({kind}), static_cast<std::uint16_t>(peer + 1), static_cast<std::uint16_t>(plan_.replicas)};
  }

  /// The master's own kernels run after the copies, on the same CUDA stream.
  Ops hand_out() {
    for (std::size_t peer = 0; peer < peers(); ++peer) co_yield send(Content::input, peer, plan_.input, 0, {});
    co_yield give_parameters();
    co_yield await_sends();
  }

  Ops gather_outputs(int micro_batch) {
    co_yield book_memory(all_outputs(), MemoryClass::activations);
    for (std::size_t peer = 0; peer < peers(); ++peer)
      co_yield receive(Content::output, peer, 0, Action::copy, part(Buffer::outputs, peer), true);
    co_yield await_messages();
    if (plan_.loss_on_master) {
      co_yield pass(Pass::forward, layers() - 1, micro_batch, Part::loss, plan_.replicas);
      co_yield book_memory(all_outputs(), MemoryClass::activations);
      co_yield pass(Pass::backward, layers() - 1, micro_batch, Part::loss, plan_.replicas);
      if (step_.values) co_yield call(CentralCall::loss, 0, micro_batch);
      for (std::size_t peer = 0; peer < peers(); ++peer)
        co_yield send(Content::output_gradient, peer, plan_.output, 0, part(Buffer::output_gradients, peer));
      co_yield await_sends();
      co_yield book_memory(-all_outputs(), MemoryClass::activations);
    }
    co_yield book_memory(-all_outputs(), MemoryClass::activations);
  }

  Ops collect_gradients() {
    for (std::size_t b = 0; b < stage_.buckets.size(); ++b) {
      for (std::size_t peer = 0; peer < peers(); ++peer) {
        co_yield receive(Content::gradients, peer, b, Action::reduce, whole_buffer(Buffer::gradients, b), true);
        Work sum = plan_.addition;
        sum.bytes = sum.bytes * stage_.buckets[b].elements;
        wait_for(out_.last_operation(receiving));
        co_yield work(sum, words_.compute, words_.add);
      }
      if (step_.values) co_yield call(TrainingCall::keep_gradients, b);
    }
  }
};

class MasterGpu : public CentralMechanism {
 public:
  explicit MasterGpu(bool loss_on_master) : CentralMechanism("master"), loss_on_master_(loss_on_master) {}

 protected:
  MakeProgram program() const override { return master_program; }
  void place_center(CentralPlan& plan, const MechanismSite& site) const override {
    plan.loss_on_master = loss_on_master_;
    plan.memory = worker_memory(site.plan, site.states, site.plan.network->parameters());
  }

 private:
  bool loss_on_master_;
};

const RegisterMechanism register_master{
    {"master",
     "one process: the first GPU of a node sends parameters to the others and sums their gradients",
     {{"loss",
       "Device that computes the losses: master (for the outputs of all replicas) or replicas (each for its own), for "
       "example replicas. Default: master."}},
     nullptr,
     [](Fields& fields, const ClusterSpec&) -> std::unique_ptr<Mechanism> {
       return std::make_unique<MasterGpu>(fields.choice("loss", {"master", "replicas"}, "master") == "master");
     }}};

}  // namespace

std::unique_ptr<Program> master_program(Actor actor, const CentralPlan& plan, const PassTables& tables,
                                        const CentralNames& words) {
  if (actor == plan.center) return std::make_unique<Master>(plan, tables, words);
  return std::make_unique<MasterCopy>(plan, tables, words);
}

}  // namespace trainyard
