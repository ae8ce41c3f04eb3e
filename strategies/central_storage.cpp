// Parameters in the memory of a CPU (TensorFlow's CentralStorageStrategy, and ParameterServerStrategy in step): every
// GPU takes them at the beginning of a step, bucket by bucket as its layers need them, and pushes its gradients as the
// backward pass makes them. The CPU adds them up as they come, updates, and lets all go on.
#include <algorithm>
#include <numeric>

#include "strategies/central_step.hpp"

namespace trainyard {
namespace {

BufferRef whole_buffer(std::size_t buffer) { return {static_cast<std::uint16_t>(buffer), 0, 1}; }

class StorageWorker : public CentralStep {
 public:
  StorageWorker(const CentralPlan& plan, const PassTables& tables, const CentralWords& words)
      : CentralStep(plan, tables, words, {plan.center}), ready_(plan.step.network->layers.size()) {}

 protected:
  Ops run() override {
    co_yield hold(stage_.memory);
    for (int step = 0; step < step_.steps; ++step) {
      next_round();
      out_.begin_sample(static_cast<std::uint32_t>(step));
      co_yield overhead();
      co_yield take_parameters();
      next_bucket_ = 0;
      for (int micro_batch = 0; micro_batch < step_.micro_batches; ++micro_batch) {
        for (int layer = 0; layer < layers(); ++layer) co_yield pass(Pass::forward, layer, micro_batch);
        for (int layer = layers() - 1; layer >= 0; --layer) co_yield pass(Pass::backward, layer, micro_batch);
      }
      co_yield push_gradients(-1, 0);
      co_yield receive(Content::over, 0, 0, Action::none, {}, false);
      wait_for(out_.after(receiving));
      co_yield settle();
    }
  }

 private:
  std::vector<Dep> ready_;  // by layer: its parameters are there
  std::size_t next_bucket_ = 0;

  /// The first layers' buckets are made last, and needed first.
  Ops take_parameters() {
    for (std::size_t b = stage_.buckets.size(); b-- > 0;) {
      co_yield receive(Content::parameters, 0, b, Action::copy, whole_buffer(kParameters + b), true);
      if (step_.values) co_yield call_on(receiving, TrainingCall::take_parameters, b);
      for (const GradientBucket::Part& part : stage_.buckets[b].parts)
        ready_[static_cast<std::size_t>(part.layer)] = out_.after(receiving);
    }
    // A tied weight belongs to the first layer alone: whoever comes later has waited for it.
  }

  Ops pass(Pass what, int layer, int micro_batch) {
    const bool first = micro_batch == 0, last = micro_batch + 1 == step_.micro_batches;
    const bool leave = what == Pass::backward && last && step_.overlap_gradients;
    const bool fine = leave && !step_.values;  // numbers go layer by layer
    if (what == Pass::forward && first) wait_for(ready_[static_cast<std::size_t>(layer)]);
    for (const PassItem& item : tables_.pass(what, layer, first, fine).items) {
      co_yield kernel(item);
      if (fine) co_yield push_gradients(layer, item.kernel);
    }
    if (!step_.values) co_return;
    co_yield settle();
    co_yield call(what == Pass::forward ? TrainingCall::forward : TrainingCall::backward,
                  static_cast<std::size_t>(layer), micro_batch);
    if (leave) co_yield push_gradients(layer, 1 << 30);
  }

  /// Buckets whose last gradient is there once this kernel of this layer has ended.
  Ops push_gradients(int layer, int kernel) {
    for (; next_bucket_ < stage_.buckets.size(); ++next_bucket_) {
      const GradientBucket& bucket = stage_.buckets[next_bucket_];
      if (bucket.layer < layer || (bucket.layer == layer && bucket.kernel > kernel)) break;
      if (step_.values) co_yield call(TrainingCall::fill_bucket, next_bucket_);
      co_yield send(Content::gradients, 0, gradient_bytes(next_bucket_), next_bucket_, whole_buffer(next_bucket_));
    }
  }
};

class StorageServer : public CentralStep {
 public:
  StorageServer(const CentralPlan& plan, const PassTables& tables, const CentralWords& words)
      : CentralStep(plan, tables, words, all(plan)) {}

 protected:
  Ops run() override {
    co_yield hold(plan_.memory);
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
  static std::vector<Actor> all(const CentralPlan& plan) {
    std::vector<Actor> workers(static_cast<std::size_t>(plan.replicas));
    std::iota(workers.begin(), workers.end(), 0);
    return workers;
  }

  Ops give_parameters() {
    for (std::size_t b = stage_.buckets.size(); b-- > 0;) {
      if (step_.values) co_yield call(TrainingCall::fill_parameters, b);
      for (std::size_t peer = 0; peer < peers(); ++peer)
        co_yield send(Content::parameters, peer, parameter_bytes(b), b, whole_buffer(kParameters + b));
    }
  }

  /// The first gradient of a bucket is the sum so far.
  Ops collect_gradients() {
    for (std::size_t b = 0; b < stage_.buckets.size(); ++b) {
      Work sum = plan_.addition;
      sum.bytes = sum.bytes * stage_.buckets[b].elements;
      for (std::size_t peer = 0; peer < peers(); ++peer) {
        co_yield receive(Content::gradients, peer, b, peer == 0 ? Action::copy : Action::reduce, whole_buffer(b), true);
        wait_for(out_.after(receiving));
        if (peer > 0) co_yield work(sum, words_.compute, words_.add);
      }
      co_yield settle();
    }
  }
};

}  // namespace

std::unique_ptr<Program> storage_server(const CentralPlan& plan, const PassTables& tables, const CentralWords& words) {
  return std::make_unique<StorageServer>(plan, tables, words);
}
std::unique_ptr<Program> storage_worker(Actor, const CentralPlan& plan, const PassTables& tables,
                                        const CentralWords& words) {
  return std::make_unique<StorageWorker>(plan, tables, words);
}

}  // namespace trainyard
