// The update of a step is there before the step that many later than the next one begins: gradients travel meanwhile.
#include <fmt/format.h>

#include "strategies/mechanisms/replicas/replicas.hpp"

namespace trainyard {
namespace {

constexpr int kMostDelay = 16;

class DelayedUpdates : public WholeReplicas {
 public:
  explicit DelayedUpdates(int delay) : WholeReplicas("delay"), delay_(delay) {}

  void lay_out(TrainingPlan& plan, const TrainingStates&) const override {
    plan.updates.delay = delay_;
    StaticMemory& memory = plan.stages.front().memory;
    const Bytes late = delay_ * memory.gradients;
    memory.parts.push_back({"gradients on their way", MemoryClass::gradients, late});
    memory.gradients += late;
  }
  StepRhythm rhythm() const override {
    const int turns = delay_ + 1;
    return {turns, "updates that are late come in turns of delay + 1 steps", 4 * turns, 4.0 * turns};
  }
  void book(MechanismFigures& figures, const TrainingPlan& plan, int steps) const override {
    figures.replicas.delay = delay_;
    figures.replicas.late_gradients = static_cast<double>(plan.ranks()) * steps;
  }
  Report report(const MechanismFigures&, const std::function<std::string(double)>&, const std::string&) const override {
    return {"updates", {fmt::format("updates {} step{} late", delay_, delay_ == 1 ? "" : "s")}};
  }

 private:
  int delay_;
};

const RegisterMechanism registered{
    {"delayed-updates",
     "gradients of a step are applied some steps later",
     {"delay"},
     [](Fields& fields) { return fields.integer_within("delay", 0, kMostDelay, 0) > 0; },
     [](Fields& fields, const ClusterSpec&) -> std::unique_ptr<Mechanism> {
       return std::make_unique<DelayedUpdates>(static_cast<int>(fields.integer_within("delay", 1, kMostDelay)));
     }}};

}  // namespace
}  // namespace trainyard
