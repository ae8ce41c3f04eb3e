// Local SGD (Stich 2019): each replica updates alone; parameters are averaged every so many steps.
#include <fmt/format.h>

#include "strategies/mechanisms/replicas/replicas.hpp"

namespace trainyard {
namespace {

constexpr int kMostLocalSteps = 1 << 16;

class LocalSgd : public WholeReplicas {
 public:
  explicit LocalSgd(int steps) : WholeReplicas("local_steps"), steps_(steps) {}

  void lay_out(TrainingPlan& plan, const TrainingStates&) const override { plan.updates.local_steps = steps_; }
  StepRhythm rhythm() const override { return {steps_, "plan.data_parallel.local_steps: one average each", steps_}; }
  void book(MechanismFigures& figures, const TrainingPlan&, int) const override {
    figures.replicas.local_steps = steps_;
  }
  Report report(const MechanismFigures&, const std::function<std::string(double)>&, const std::string&) const override {
    return {"updates", {fmt::format("parameters averaged every {} steps", steps_)}};
  }

 private:
  int steps_;
};

const RegisterMechanism registered{
    {"local-sgd",
     "replicas update alone and average their parameters every few steps",
     {"local_steps"},
     [](Fields& fields) { return fields.has("local_steps"); },
     [](Fields& fields, const ClusterSpec&) -> std::unique_ptr<Mechanism> {
       return std::make_unique<LocalSgd>(static_cast<int>(fields.integer_within("local_steps", 1, kMostLocalSteps)));
     }}};

}  // namespace
}  // namespace trainyard
