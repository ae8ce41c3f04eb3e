// `trainyard teach pipeline`.
#include <fmt/format.h>

#include "scenarios/src/lessons/teach_pipeline.hpp"
#include "sim/process/output.hpp"
#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

struct PipelineFlags {
  std::string schedule = "1f1b";
  double forward = 1, backward = 2, weights = 0, transfer = 0;  ///< slots; weights 0: half of backward
  PipelineShape shape{4, 8, 1};
  std::string write;  ///< file for the order of passes; "": none
  int labels_from = 0, steps = std::numeric_limits<int>::min();
};

/// Value of --schedule that shows all schedules.
constexpr const char* kAllSchedules = "all";

PipelineTimes times_of(const PipelineFlags& flags) {
  const double weights = flags.weights > 0 ? flags.weights : flags.backward / 2;
  if (weights >= flags.backward)
    throw UserError(fmt::format("--weights {:.6g}: a part of the backward time is expected, less than {:.6g}", weights,
                                flags.backward));
  return {flags.forward, flags.backward - weights, weights};
}

PipelineLesson pipeline_lesson_of(const PipelineFlags& flags) {
  const PipelineSchedule& schedule =
      find_pipeline_schedule(flags.schedule, flags.shape, Place::named("--schedule " + flags.schedule));
  if (!schedule.is_solved() && flags.shape.figures.activation_limit > 1)
    throw UserError(
        fmt::format("--activation-limit: {} has a fixed order; expected --schedule zb-auto", schedule.name));
  PipelineLesson lesson =
      teach_pipeline(schedule, flags.shape, times_of(flags), flags.transfer, std::max(0, flags.steps));
  lesson.labels_from = flags.labels_from;
  return lesson;
}

std::function<LessonView()> pipeline(const std::string&, Arguments& arguments) {
  const auto flags = std::make_shared<PipelineFlags>();
  arguments.option("--schedule", flags->schedule, "NAME",
                   fmt::format("schedule: {}, a file .yaml with the passes of each stage, or all, which shows one step "
                               "of each schedule on one scale of time (default 1f1b)",
                               fmt::join(pipeline_schedules().names(), ", ")));
  arguments.option("--stages", flags->shape.stages, "N", "number of stages, 1 to 32", 1, 32);
  arguments.option("--micro-batches", flags->shape.micro_batches, "N", "number of micro-batches, 1 to 256", 1, 256);
  arguments.option("--chunks", flags->shape.chunks, "N", "number of model chunks of a stage, 1 to 16", 1, 16);
  arguments.option("--forward", flags->forward, "TIME",
                   "time of the forward pass of one micro-batch on one stage, slots (default 1)", kLeastSlots,
                   kMostSlots);
  arguments.option("--backward", flags->backward, "TIME", "time of the backward pass, slots (default 2)", kLeastSlots,
                   kMostSlots);
  arguments.option(
      "--weights", flags->weights, "TIME",
      "part of the backward time for weight gradients, slots, in schedules that split the backward pass (default half)",
      kLeastSlots, kMostSlots);
  arguments.option("--transfer", flags->transfer, "TIME", "time of a message from stage to stage, slots (default 0)", 0,
                   kMostSlots);
  arguments.option("--steps", flags->steps, "N",
                   "number of steps, 1 to 8. A stage begins the next step as soon as its own work is done, so its "
                   "update waits for no other stage (default 1; 3 in schedules whose steps then overlap)",
                   1, 8);
  StageFigures& figures = flags->shape.figures;
  arguments.option(
      "--activation-limit", figures.activation_limit, "N",
      "most activations that zb-auto keeps, in those of 1f1b's first stage, 1 to 16 (default 1; 2 is ZB-2p)", 1,
      kMostActivationLimit);
  arguments.option("--kept", figures.kept_share, "SHARE",
                   "share of a micro-batch's activations that a stage keeps for its weight gradients, if these come "
                   "later than those of its inputs, 0 to 1 (default 1)",
                   0, 1);
  label_option(arguments, flags->labels_from,
               "number of the first stage and micro-batch in text and pictures (default 0; JSON counts from 0)");
  arguments.output("--write", flags->write,
                   "write the passes of each stage as YAML, for plan.pipeline.schedule and --schedule; - is stdout");
  return [flags] {
    if (flags->schedule == kAllSchedules) {
      if (!flags->write.empty() || flags->steps > 1)
        throw UserError("--schedule all: expected no --write and no --steps, which are for a single schedule");
      if (flags->shape.figures.kept_share < 1)
        throw UserError("--schedule all: expected no --kept, which is for a single schedule");
      return compare_pipelines(flags->shape, times_of(*flags), flags->transfer, flags->labels_from);
    }
    const PipelineLesson lesson = pipeline_lesson_of(*flags);
    if (!flags->write.empty()) {
      PipelineShape shape = flags->shape;
      shape.figures.times = times_of(*flags);
      shape.figures.transfer = flags->transfer;
      write_atomically(flags->write, pipeline_schedule_text(pipeline_schedules().find(flags->schedule, {}), shape));
    }
    return lesson_view(lesson);
  };
}

const RegisterTeachTopic registered_pipeline{
    {"pipeline", "show stages over time under a pipeline schedule",
     "Shows stages over time under one schedule: bubble, speed-up and memory, as simulated.",
     "teach pipeline --schedule 1f1b --stages 4 --micro-batches 8 --svg pipeline.svg", pipeline}};

}  // namespace
}  // namespace trainyard
