// Local SGD (Stich 2019): each replica updates alone; every few steps the parameters of all replicas are averaged. What
// the optimizer keeps is not.
#include "strategies/step/rank_updates.hpp"

namespace trainyard {
namespace {

class RankLocalSgd : public RankUpdates {
 public:
  RankLocalSgd(const StepParts& parts, int period) : RankUpdates(parts), period_(period) {}

  Ops after_backward(int step) override {
    co_yield RankUpdates::after_backward(step);
    if ((step + 1) % period_ == 0) co_yield average();
  }

 private:
  int period_;

  Ops average() {
    StepContext& step = parts_.step;
    while (step.waits.any()) co_yield step.take_waits();
    for (std::size_t b = step.buckets(); b-- > 0;) {
      const CallArguments about = CallArguments::of_bucket(b);
      if (step.plan.values) co_yield step.call(TrainingCall::fill_parameters, about);
      co_yield parts_.collectives.run({Lane::gradients, Operation::all_reduce,
                                       step.stage.buckets[b].elements * step.plan.parameter_element, step.words.average,
                                       step.buffer({TrainingBuffer::Kind::parameters, about.bucket()}),
                                       step.out.after(TrainingStreams::compute)});
      if (step.plan.values)
        co_yield step.call_on(parts_.collectives.receives(Lane::gradients), TrainingCall::take_parameters, about);
    }
    step.waits.add(parts_.collectives.end_of(Lane::gradients));
    while (step.waits.any()) co_yield step.take_waits();
  }
};

class LocalSgd : public UpdatePolicy {
 public:
  explicit LocalSgd(int period) : period_(period) {}

  bool sums_gradients(int) const override { return false; }
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<RankLocalSgd>(parts, period_);
  }

 private:
  int period_;
};

std::shared_ptr<const UpdatePolicy> local_sgd(const ReplicaUpdates& asked) {
  return std::make_shared<LocalSgd>(asked.local_steps);
}

TRAINYARD_UPDATE_POLICY("local-sgd", local_sgd);

}  // namespace
}  // namespace trainyard
