#include "strategies/step/forward_only.hpp"

#include <utility>

#include "strategies/step/rank_updates.hpp"

namespace trainyard {
namespace {

class NoUpdates : public RankUpdates {
 public:
  using RankUpdates::RankUpdates;

  /// Waits until messages to the next stage have left.
  Ops after_backward(int) override {
    while (parts_.step.waits.has_any()) co_yield parts_.step.take_waits();
  }
};

class ForwardPolicy : public UpdatePolicy {
 public:
  bool sums_gradients(int) const override { return false; }
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<NoUpdates>(parts);
  }
};

/// Replaces a network by one whose layers keep no tensors for a backward pass.
void keep_nothing(std::shared_ptr<const Network>& network) {
  auto forward = std::make_shared<Network>(*network);
  for (Layer& layer : forward->layers) {
    layer.saved_tensors.clear();
    layer.kept_for_weights = Bytes{0};
  }
  network = std::move(forward);
}

}  // namespace

void make_forward_only(TrainingPlan& plan) {
  keep_nothing(plan.network);
  for (std::shared_ptr<const Network>& network : plan.load_networks) keep_nothing(network);
  for (StagePlan& stage : plan.stages) {
    std::erase_if(stage.tasks, [](const PipelineTask& task) { return task.pass != PipelineTask::Pass::forward; });
    stage.buckets.clear();
    stage.optimizer = Work{};
  }
  plan.tied = false;
  plan.bucket_copy = false;
  plan.updates = std::make_shared<const ForwardPolicy>();
}

}  // namespace trainyard
