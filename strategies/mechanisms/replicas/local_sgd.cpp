// Local SGD (Stich 2019): each replica updates alone; every few steps, and at the end of the training, the parameters of
// all replicas are averaged. Optimizer states are not averaged.
#include <fmt/format.h>

#include "strategies/mechanisms/replicas/replicas.hpp"
#include "strategies/step/rank_updates.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {
namespace {

constexpr int kMostLocalSteps = 1 << 16;

class RankLocalSgd : public RankUpdates {
 public:
  RankLocalSgd(const StepParts& parts, int period) : RankUpdates(parts), period_(period) {}

  Ops after_backward(int step) override {
    co_yield RankUpdates::after_backward(step);
    if ((step + 1) % period_ == 0) co_yield average();
  }
  Ops after_training() override {
    if (parts_.step.plan.steps % period_ != 0) co_yield average();
  }

 private:
  int period_;

  Ops average() {
    StepContext& step = parts_.step;
    while (step.waits.has_any()) co_yield step.take_waits();
    for (std::size_t b = step.buckets(); b-- > 0;) {
      const CallArguments about = CallArguments::of_bucket(b);
      if (step.plan.values) co_yield step.call(TrainingCall::fill_parameters, about);
      co_yield parts_.collectives.run({Lane::gradients, Operation::all_reduce,
                                       step.stage.buckets[b].elements * step.plan.parameter_element, step.words.average,
                                       step.buffer({TrainingBuffer::Kind::parameters, about.bucket()}),
                                       step.out.last_operation(TrainingStreams::compute)});
      if (step.plan.values)
        co_yield step.call_on(parts_.collectives.receives(Lane::gradients), TrainingCall::take_parameters, about);
    }
    step.waits.add(parts_.collectives.end_of(Lane::gradients));
    while (step.waits.has_any()) co_yield step.take_waits();
  }
};

class LocalSgdPolicy : public UpdatePolicy {
 public:
  explicit LocalSgdPolicy(int period) : period_(period) {}

  bool sums_gradients(int) const override { return false; }
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<RankLocalSgd>(parts, period_);
  }
  void add_values(TrainingValues& values) const override {
    values.register_call(TrainingCall::fill_parameters, [&values](Actor rank, const CallArguments& call) {
      values.put(rank, {TrainingBuffer::Kind::parameters, call.bucket()},
                 values.replica(rank).parameters_of(call.bucket()));
    });
    values.register_call(TrainingCall::take_parameters, [&values](Actor rank, const CallArguments& call) {
      const Eigen::VectorXd& sum = values.sum(rank, {TrainingBuffer::Kind::parameters, call.bucket()});
      values.replica(rank).take_parameters(call.bucket(), sum / values.plan().ranks());
      if (rank == 0 && call.bucket() == 0) values.note_merge();  // bucket 0 comes last
    });
  }

 private:
  int period_;
};

class LocalSgd : public WholeReplicas {
 public:
  explicit LocalSgd(int steps) : WholeReplicas("local_steps"), steps_(steps) {}

  void read_setting(Fields& fields, const MechanismSetting& setting) override {
    WholeReplicas::read_setting(fields, setting);
    if (fields.has("overlap"))
      fields.refuse("overlap",
                    "it would change nothing: parameters are averaged after the last local step; leave it out");
  }
  void lay_out(TrainingPlan& plan, const TrainingStates&) const override { plan.updates = local_sgd(steps_); }
  bool averages_parameters() const override { return true; }
  std::string refuses_compression() const override { return "replicas average parameters, and exchange no gradients"; }
  StepRhythm rhythm() const override {
    return {.turns = steps_,
            .turns_reason = "plan.data_parallel.local_steps: parameters are averaged once in so many steps",
            .steps = steps_,
            .exchange_interval = steps_};
  }
  void add_figures(MechanismFigures& figures, const TrainingPlan&, int) const override {
    figures.replicas["local_steps"] = std::int64_t{steps_};
  }
  Report report(const MechanismFigures&, const std::function<std::string(double)>&, const std::string&) const override {
    return {"updates",
            {steps_ == 1 ? "parameters averaged after every step"
                         : fmt::format("parameters averaged every {} steps", steps_)}};
  }

 private:
  int steps_;
};

const RegisterMechanism register_local_sgd{
    {"local-sgd",
     "replicas update alone and average their parameters every few steps",
     {"local_steps"},
     [](Fields& fields) { return fields.has("local_steps"); },
     [](Fields& fields, const ClusterSpec&) -> std::unique_ptr<Mechanism> {
       return std::make_unique<LocalSgd>(fields.integer_within<int>(
           {"local_steps", "Number of steps between two averages of the parameters, for example 8.",
            "with mechanism local-sgd"},
           1, kMostLocalSteps));
     },
     {{"local_steps", "number of steps between two averages of the parameters", std::int64_t{}}},
     "with local SGD"}};

}  // namespace

std::shared_ptr<const UpdatePolicy> local_sgd(int period) { return std::make_shared<LocalSgdPolicy>(period); }

}  // namespace trainyard
