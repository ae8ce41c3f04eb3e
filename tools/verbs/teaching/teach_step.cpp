// `trainyard teach step`.
#include "scenarios/src/lessons/teach_step.hpp"

#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

std::function<LessonView()> divided_step(const std::string&, Arguments& arguments) {
  struct Flags {
    std::string file;
    std::vector<std::string> sets;
    StepQuestion question;
  };
  const auto flags = std::make_shared<Flags>();
  arguments.positional("SCENARIO", flags->file, "scenario file (YAML) of a small MLP or transformer");
  arguments.repeated_flag("--set", flags->sets, "PATH=VALUE", "override a field of the scenario; may be repeated");
  arguments.option("--steps", flags->question.steps, "N", "number of steps, 1 to 100 (default 1)", 1, 100);
  arguments.option(
      "--leave-out", flags->question.leave_out, "NAME",
      "let the messages of an exchange bring zeros, to see what it is for: all-reduce, tensor, pipeline, …");
  arguments.option("--learning-rate", flags->question.learning_rate, "X",
                   "learning rate of SGD with momentum 0.9, up to 100 (default 0.1)", 1e-9, 100);
  arguments.option("--seed", flags->question.seed, "N", "seed of the weights and the samples (default 1)", 0, 1000000);
  return [flags] {
    return lesson_view(teach_step(read_for_values(flags->file, parse_overrides(flags->sets)), flags->question));
  };
}

const RegisterTeachTopic registered_step{
    {"step", "compute a divided training step on numbers, beside the same step of one device",
     "Computes a training step of the scenario's own network on numbers: once divided as its plan says, by the "
     "messages that `run` times, and once on one device. Equal weights show that the plan divides the work correctly.",
     "teach step scenarios/lessons/4-pipelines-and-tensor-parallelism/37-data-or-model.yaml --set "
     "plan.tensor_parallel=4 --set \"model={mlp: {widths: [16, 16, 16, 16]}}\"",
     divided_step}};

}  // namespace
}  // namespace trainyard
