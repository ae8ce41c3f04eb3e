// A further mechanism is one file: replicas sum their gradients in every second step, and each updates alone in the
// others. Nothing else knows of it; a scenario names it in plan.data_parallel.mechanism.
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/plan/update_policy.hpp"

namespace trainyard {
namespace {

class EverySecondStepPolicy : public UpdatePolicy {
 public:
  bool sums_gradients(int step) const override { return step % 2 == 1; }
};

class EverySecondStep : public Mechanism {
 public:
  void lay_out(TrainingPlan& plan, const TrainingStates&) const override {
    plan.updates = std::make_shared<EverySecondStepPolicy>();
  }
  StepRhythm rhythm() const override { return {2, "gradients are summed in every second step", 2}; }
  std::string summary(const std::string& all_reduce) const override { return all_reduce + " every second step"; }
};

const RegisterMechanism register_every_second_step{
    {"every-second-step",
     "replicas sum gradients in every second step, and update alone in the others",
     {},
     nullptr,
     [](Fields&, const ClusterSpec&) -> std::unique_ptr<Mechanism> { return std::make_unique<EverySecondStep>(); }}};

}  // namespace
}  // namespace trainyard
