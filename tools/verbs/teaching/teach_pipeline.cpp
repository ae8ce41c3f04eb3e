// `trainyard teach pipeline`.
#include <fmt/format.h>

#include "scenarios/src/lessons/teach_pipeline.hpp"
#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

struct PipelineFlags {
  std::string schedule = "1f1b";
  double forward = 1, backward = 2, weights = 0, transfer = 0;  // weights 0: half of backward
  PipelineShape shape{4, 8, 1};
  int labels_from = 0, steps = std::numeric_limits<int>::min();
};

PipelineLesson pipeline_lesson_of(const PipelineFlags& flags) {
  Place place;
  place.file = std::make_shared<const std::string>("--schedule " + flags.schedule);
  const PipelineSchedule& schedule = find_pipeline_schedule(flags.schedule, flags.shape, place);
  const double weights = flags.weights > 0 ? flags.weights : flags.backward / 2;
  if (weights >= flags.backward)
    throw UserError(fmt::format("--weights {:.6g}: a part of the backward time is expected, less than {:.6g}", weights,
                                flags.backward));
  PipelineLesson lesson = teach_pipeline(schedule, flags.shape, {flags.forward, flags.backward - weights, weights},
                                         flags.transfer, std::max(0, flags.steps));
  lesson.labels_from = flags.labels_from;
  return lesson;
}

std::function<LessonView()> pipeline(const std::string&, Arguments& arguments) {
  const auto flags = std::make_shared<PipelineFlags>();
  arguments.option("--schedule", flags->schedule, "NAME",
                   fmt::format("{} (default 1f1b)", fmt::join(pipeline_schedules().names(), ", ")));
  arguments.option("--stages", flags->shape.stages, "N", "1 to 32", 1, 32);
  arguments.option("--micro-batches", flags->shape.micro_batches, "N", "1 to 256", 1, 256);
  arguments.option("--chunks", flags->shape.chunks, "N", "model chunks a stage, 1 to 16", 1, 16);
  arguments.option("--forward", flags->forward, "TIME",
                   "forward pass of one micro-batch on one stage, in slots (default 1)", kLeastSlots, kMostSlots);
  arguments.option("--backward", flags->backward, "TIME", "backward pass of one micro-batch on one stage (default 2)",
                   kLeastSlots, kMostSlots);
  arguments.option("--weights", flags->weights, "TIME",
                   "its part for weight gradients, in schedules that split it (default half)", kLeastSlots, kMostSlots);
  arguments.option("--transfer", flags->transfer, "TIME", "transfer of a message from stage to stage (default 0)", 0,
                   kMostSlots);
  arguments.option("--steps", flags->steps, "N",
                   "1 to 8 in a row: a stage begins the next one as soon as its own work is done, as where the update "
                   "waits for no other stage (default 1; 3 in schedules whose steps then overlap)",
                   1, 8);
  label_option(arguments, flags->labels_from,
               "number of the first stage and micro-batch in text and pictures (default 0; JSON counts from 0)");
  return [flags] { return lesson_view(pipeline_lesson_of(*flags)); };
}

const RegisterTeachTopic registered_pipeline{
    {"pipeline", "stages over time under a pipeline schedule",
     "Stages over time under one schedule: bubble, speed-up and memory, as the simulator runs it.",
     "teach pipeline --schedule 1f1b --stages 4 --micro-batches 8 --svg pipeline.svg", pipeline}};

}  // namespace
}  // namespace trainyard
