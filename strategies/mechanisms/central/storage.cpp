// Parameters in the memory of a CPU (TensorFlow's CentralStorageStrategy, and ParameterServerStrategy in step). At the
// beginning of a step every GPU receives them, bucket by bucket in the order of its layers. It pushes its gradients as
// the backward pass computes them. The CPU sums them as they arrive, updates, and starts the next step of all GPUs.
#include "sim/index.hpp"
#include "sim/program.hpp"
#include "strategies/mechanisms/central/central_mechanism.hpp"
#include "strategies/mechanisms/central/central_step.hpp"

namespace trainyard {
namespace {

using Buffer = TrainingBuffer::Kind;

class StorageWorker : public WorkerStep {
 public:
  StorageWorker(const CentralPlan& plan, const PassTables& tables, const CentralNames& words)
      : WorkerStep(plan, tables, words, {plan.center}), ready_(plan.step.network->layers.size()) {}

 protected:
  Ops run() override {
    co_yield book_static_memory(stage_.memory);
    for (int step = 0; step < step_.steps; ++step) {
      next_round();
      out_.begin_sample(static_cast<std::uint32_t>(step));
      co_yield overhead();
      co_yield take_all_parameters();
      co_yield passes();
      co_yield receive(Content::over, 0, 0, Action::none, {}, false);
      co_yield await_messages();
      if (step_.marks_steps) co_yield out_.emit(step_over());
    }
  }
  Ops await_parameters(int layer) override {
    wait_for(ready_[layer]);
    co_return;
  }
  Ops push(std::size_t bucket) override {
    if (step_.values) co_yield call(TrainingCall::fill_bucket, bucket);
    co_yield send(Content::gradients, 0, gradient_bytes(bucket), bucket, whole_buffer(Buffer::gradients, bucket));
  }

 private:
  std::vector<Dep> ready_;  // indexed by layer: the arrival of its parameters

  Ops take_all_parameters() {
    for (std::size_t b = stage_.buckets.size(); b-- > 0;) {
      co_yield take_parameters(b);
      for (const GradientBucket::Part& part : stage_.buckets[b].parts)
        ready_[part.layer] = out_.last_operation(receiving);
    }
    // A tied weight belongs to the first layer only. A later layer that uses it runs after the first one anyway.
  }
};

class StorageServer : public CentralStep {
 public:
  StorageServer(const CentralPlan& plan, const PassTables& tables, const CentralNames& words)
      : CentralStep(plan, tables, words, consecutive_numbers(Actor{0}, plan.replicas)) {}

 protected:
  Ops run() override {
    co_yield book_static_memory(plan_.memory);
    for (int step = 0; step < step_.steps; ++step) {
      next_round();
      co_yield give_parameters();
      co_yield collect_gradients();
      co_yield work(stage_.optimizer, words_.optimizer, words_.update);
      if (step_.values) co_yield call(TrainingCall::update, 0);
      for (std::size_t peer = 0; peer < peers(); ++peer) co_yield send(Content::over, peer, Bytes{0}, 0, {});
    }
  }

 private:
  /// Sums the gradients of each bucket, starting with a copy of the first.
  Ops collect_gradients() {
    for (std::size_t b = 0; b < stage_.buckets.size(); ++b) {
      Work sum = plan_.addition;
      sum.bytes = sum.bytes * stage_.buckets[b].elements;
      for (std::size_t peer = 0; peer < peers(); ++peer) {
        co_yield receive(Content::gradients, peer, b, peer == 0 ? Action::copy : Action::reduce,
                         whole_buffer(Buffer::gradients, b), true);
        wait_for(out_.last_operation(receiving));
        if (peer > 0) co_yield work(sum, words_.compute, words_.add);
      }
      co_yield drain_waits();
    }
  }
};

class CentralStorage : public CentralMechanism {
 public:
  CentralStorage() : CentralMechanism("central-storage") {}

 protected:
  MakeProgram program() const override { return storage_program; }
  void place_center(CentralPlan& plan, const MechanismSite& site) const override {
    const double parameters = site.plan.network->parameters();
    plan.center = cpu_of_node(site.machine, 0);
    plan.memory = model_states({parameters, parameters, parameters}, site.states.precision, site.states.optimizer);
  }
};

const RegisterMechanism register_central_storage{
    {"central-storage",
     "a CPU of the node holds the parameters, sums the gradients and updates",
     {},
     nullptr,
     [](Fields&, const ClusterSpec&) -> std::unique_ptr<Mechanism> { return std::make_unique<CentralStorage>(); }}};

}  // namespace

std::unique_ptr<Program> storage_program(Actor actor, const CentralPlan& plan, const PassTables& tables,
                                         const CentralNames& words) {
  if (actor == plan.center) return std::make_unique<StorageServer>(plan, tables, words);
  if (actor < plan.replicas) return std::make_unique<StorageWorker>(plan, tables, words);
  return std::make_unique<ListProgram>(std::vector<Op>{});  // takes no part
}

}  // namespace trainyard
