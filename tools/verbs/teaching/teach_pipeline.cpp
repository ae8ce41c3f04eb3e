// `trainyard teach pipeline`.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "sim/process/terminal.hpp"
#include "tools/reports/teaching/pipeline_views.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

constexpr int kMostStages = 32, kMostMicroBatches = 256, kMostChunks = 16, kMostSteps = 8;

struct PipelineFlags {
  std::string schedule = "1f1b", forward = "1", backward = "2", weights, transfer = "0", html, svg, json;
  PipelineShape shape{4, 8, 1};
  int labels_from = 0, steps = std::numeric_limits<int>::min();
};

void add_to(Arguments& arguments, PipelineFlags& flags) {
  std::string names;
  for (const std::string& name : pipeline_schedules().names()) names += (names.empty() ? "" : ", ") + name;
  arguments.option("--schedule", flags.schedule, "NAME", names + " (default 1f1b)");
  arguments.option("--stages", flags.shape.stages, "N", "1 to 32");
  arguments.option("--micro-batches", flags.shape.micro_batches, "N", "1 to 256");
  arguments.option("--chunks", flags.shape.chunks, "N", "model chunks a stage, 1 to 16");
  arguments.option("--forward", flags.forward, "TIME",
                   "forward pass of one micro-batch on one stage, in slots (default 1)");
  arguments.option("--backward", flags.backward, "TIME", "backward pass of one micro-batch on one stage (default 2)");
  arguments.option("--weights", flags.weights, "TIME",
                   "its part for weight gradients, in schedules that split it (default half)");
  arguments.option("--transfer", flags.transfer, "TIME", "transfer of a message from stage to stage (default 0)");
  arguments.option("--steps", flags.steps, "N",
                   "1 to 8 in a row: a stage begins the next one as soon as its own work is done, as where the update "
                   "waits for no other stage (default 1; 3 in schedules whose steps then overlap)");
  arguments.option("--labels-from", flags.labels_from, "0|1",
                   "number of the first stage and micro-batch in text and pictures (default 0; JSON counts from 0)");
  arguments.output("--html", flags.html, "a page with picture and figures; - is stdout");
  arguments.output("--svg", flags.svg, "the picture; - is stdout");
  arguments.output("--json", flags.json, "every task and figure as data; - is stdout");
}

PipelineTimes times_of(const PipelineFlags& flags) {
  const double backward = shown_slots("--backward", flags.backward, false);
  const double weights = flags.weights.empty() ? backward / 2 : shown_slots("--weights", flags.weights, false);
  if (weights >= backward)
    throw UserError(fmt::format("--weights {}: a part of the backward time is expected, less than {:.6g}",
                                flags.weights, backward));
  return {shown_slots("--forward", flags.forward, false), backward - weights, weights};
}

PipelineLesson pipeline_lesson_of(const PipelineFlags& flags) {
  const auto check = [](const char* flag, int value, int most) {
    if (value < 1 || value > most) throw UserError(fmt::format("{} {}: 1 to {} can be shown", flag, value, most));
  };
  check("--stages", flags.shape.stages, kMostStages);
  check("--micro-batches", flags.shape.micro_batches, kMostMicroBatches);
  check("--chunks", flags.shape.chunks, kMostChunks);
  const bool steps_given = flags.steps != PipelineFlags().steps;
  if (steps_given) check("--steps", flags.steps, kMostSteps);
  Place place;
  place.file = std::make_shared<const std::string>("--schedule " + flags.schedule);
  const PipelineSchedule& schedule = find_pipeline_schedule(flags.schedule, flags.shape, place);
  const PipelineTimes times = times_of(flags);
  PipelineLesson lesson = teach_pipeline(schedule, flags.shape, times, shown_slots("--transfer", flags.transfer, true),
                                         steps_given ? flags.steps : 0);
  lesson.labels_from = label_start(flags.labels_from);
  return lesson;
}

int teach_pipeline_schedule(const std::string&, const std::vector<std::string>& words) {
  Arguments arguments("teach pipeline",
                      "Stages over time under one schedule: bubble, speed-up and memory, as the simulator runs it.",
                      "teach pipeline --schedule 1f1b --stages 4 --micro-batches 8 --svg pipeline.svg");
  PipelineFlags flags;
  add_to(arguments, flags);
  if (!arguments.parse(words)) return kGood;
  const PipelineLesson lesson = pipeline_lesson_of(flags);
  if (!flags.html.empty()) write_atomically(flags.html, pipeline_html(lesson));
  if (!flags.svg.empty()) write_atomically(flags.svg, pipeline_svg(lesson));
  if (!flags.json.empty()) write_atomically(flags.json, json_text(pipeline_report(lesson), 2) + "\n");
  if (flags.html != "-" && flags.svg != "-" && flags.json != "-")
    write_atomically("-", pipeline_text(lesson, colours_on_stdout()));
  return kGood;
}

const RegisterTeachTopic registered_pipeline{"pipeline", "stages over time under a pipeline schedule",
                                             teach_pipeline_schedule};

}  // namespace
}  // namespace trainyard
