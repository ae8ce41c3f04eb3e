#include "scenarios/src/lessons/teach_pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "scenarios/src/answer/json_fields.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

constexpr int kMostComparedChunks = 4;  // a schedule that accepts several numbers of chunks is shown with 2 to 4
constexpr int kStepsInARow = 3;  // the first has the warm-up; the period is the time from the second to the third

using Pass = PipelineTask::Pass;

struct PassStyle {
  const char *letter, *words;
  Tone tone;
};
const PassStyle& style_of_pass(Pass pass) {
  static constexpr PassStyle styles[] = {{"F", "forward", Tone::blue},
                                         {"B", "backward", Tone::green},
                                         {"I", "backward by the input", Tone::pale},
                                         {"W", "backward by the weights", Tone::yellow}};
  return styles[static_cast<std::size_t>(pass)];
}

std::string pipeline_title(const PipelineLesson& lesson) {
  const PipelineShape& shape = lesson.shape;
  return fmt::format("{}: {}, {}{}{}", lesson.schedule, counted_noun(shape.stages, "stage"),
                     counted_noun(shape.micro_batches, "micro-batch", "micro-batches"),
                     shape.chunks > 1 ? fmt::format(", {} model chunks a stage", shape.chunks) : "",
                     lesson.steps > 1 ? fmt::format(", {} steps in a row", lesson.steps) : "");
}

double most_activations(const PipelineLesson& lesson) {
  double most = 0;
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s) most = std::max(most, lesson.activations(s));
  return most;
}

std::vector<std::string> pipeline_sums(const PipelineLesson& lesson) {
  const PipelineTimes& t = lesson.times;
  const double most = most_activations(lesson);
  const std::string in_a_row =
      lesson.steps_overlap()
          ? fmt::format("this is a single step; in a row a step takes {:.6g}: bubble {} of the stages' time",
                        lesson.period, percent(std::max(0.0, lesson.bubble_share_in_a_row()), 2))
          : fmt::format("steps in a row take {:.6g} each, as one alone", lesson.period);
  std::vector<std::string> sums{
      fmt::format("a micro-batch on a stage: forward {:.6g}, backward {:.6g} ({:.6g} of it for weight gradients); a "
                  "message: {:.6g}",
                  t.forward, t.backward_input + t.backward_weights, t.backward_weights, lesson.transfer),
      fmt::format("time: {:.6g}; without waiting: {:.6g}", lesson.end, lesson.ideal()),
      fmt::format("bubble: {:.4g} % of the stages' time, {:.4g} % of the time without waiting",
                  100 * lesson.bubble_share(), 100 * lesson.bubble_over_ideal()),
      in_a_row,
      fmt::format("one micro-batch at a time (naive) takes {:.6g}: {}", lesson.naive_end,
                  lesson.speed_up() < 1.00005 ? "as long" : fmt::format("{:.4g} times as long", lesson.speed_up())),
      fmt::format("memory: activations of {:.6g} micro-batch{} at most", most, most == 1 ? "" : "es")};
  if (lesson.pairs_passes) {
    sums.emplace_back("if layers exchange data, run alternates such passes layer by layer: one fills what the other");
    sums.push_back(fmt::format("frees, so that a stage stores about {:.6g} micro-batches",
                               most - static_cast<double>(lesson.copies) / lesson.shape.chunks));
  }
  if (lesson.copies > 1)
    sums.push_back(
        fmt::format("parameters: two copies; stages k and {} - k hold the same layers, and sum gradients afterwards",
                    lesson.shape.stages - 1 + 2 * lesson.labels_from));
  return sums;
}

LessonBar bar_of(const PipelineLesson& lesson, const PipelineTaskRun& run) {
  const PassStyle& style = style_of_pass(run.task.pass);
  const int chunks = lesson.shape.chunks;
  std::string label = std::to_string(run.task.micro_batch + lesson.labels_from);
  if (chunks > 1) label += static_cast<char>('a' + run.task.chunk);
  return {run.begin, run.end, style.letter, label, style.tone, 1 - 0.55 * run.task.chunk / chunks};
}

std::vector<LessonLegend> legend_of_passes(const std::set<Pass>& passes) {
  std::vector<LessonLegend> legend;
  for (const Pass pass : passes) {
    const PassStyle& style = style_of_pass(pass);
    legend.push_back({style.letter, style.words, style.tone});
  }
  legend.push_back({". ", "idle", Tone::grey});
  return legend;
}

/// The usual picture of a schedule: a lane per stage, a bar per task of a micro-batch; and the peak of each stage's
/// activations.
std::vector<LessonFrame> pipeline_frames(const PipelineLesson& lesson) {
  LessonFrame tasks{.end = lesson.run.end};
  LessonFrame memory{.caption = "peak of each stage's activations, in micro-batches",
                     .axis = LessonFrame::Axis::amount,
                     .end = 2 * most_activations(lesson)};
  memory.drawn_only = true;
  std::set<Pass> passes;
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s) {
    const std::string name = fmt::format("stage {}", static_cast<int>(s) + lesson.labels_from);
    LessonLane& lane = tasks.lanes.emplace_back(LessonLane{name, "", {}});
    for (const PipelineTaskRun& run : lesson.run.stages[s]) {
      lane.bars.push_back(bar_of(lesson, run));
      passes.insert(run.task.pass);
    }
    const double activations = lesson.activations(s);
    memory.lanes.push_back({name, "", {{0, activations, "#", "", Tone::purple}}, fmt::format("{:.6g}", activations)});
  }
  tasks.legend = legend_of_passes(passes);
  tasks.remarks = {"the number in a pass is its micro-batch; the width of a pass is its time"};
  if (lesson.shape.chunks > 1) tasks.remarks.emplace_back("a, b, …: the stage's model chunks");
  return {tasks, memory};
}

nlohmann::ordered_json stage_json(const PipelineLesson& lesson, std::size_t stage) {
  nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
  const std::vector<PipelineTaskRun>& runs = lesson.run.stages[stage];
  for (std::size_t i = 0; i < runs.size(); ++i)
    tasks.push_back({{"step", i * static_cast<std::size_t>(lesson.steps) / runs.size()},
                     {"pass", name_of(runs[i].task.pass)},
                     {"micro_batch", runs[i].task.micro_batch},
                     {"chunk", runs[i].task.chunk},
                     {"begin", runs[i].begin},
                     {"end", runs[i].end}});
  return {{"works", lesson.busy(stage)},
          {"idle", lesson.idle(stage)},
          {"activations_peak_micro_batches", lesson.activations(stage)},
          {"tasks", tasks}};
}

nlohmann::ordered_json lesson_json(const PipelineLesson& lesson) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s) stages.push_back(stage_json(lesson, s));
  return {{"schedule", lesson.schedule},
          {"stages", lesson.shape.stages},
          {"micro_batches", lesson.shape.micro_batches},
          {"chunks", lesson.shape.chunks},
          {"forward", lesson.times.forward},
          {"backward_input", lesson.times.backward_input},
          {"backward_weights", lesson.times.backward_weights},
          {"transfer", lesson.transfer},
          {"time", lesson.end},
          {"ideal_time", lesson.ideal()},
          {"naive_time", lesson.naive_end},
          {"bubble_share", lesson.bubble_share()},
          {"bubble_over_ideal", lesson.bubble_over_ideal()},
          {"in_a_row", {{"time", lesson.period}, {"bubble_share", lesson.bubble_share_in_a_row()}}},
          {"speed_up_over_naive", lesson.speed_up()},
          {"steps", lesson.steps},
          {"stage", stages}};
}

/// Returns the lesson of a schedule for this shape, with as many chunks as the shape has, or the fewest that the
/// schedule runs with. No value: the schedule refuses the shape, for the reason in `why`.
std::optional<PipelineLesson> lesson_of_schedule(const PipelineSchedule& schedule, PipelineShape shape,
                                                 const PipelineTimes& times, double transfer, std::string& why) {
  const auto refusal = [&] { return schedule.refuses ? schedule.refuses(shape) : std::string(); };
  why = refusal();
  if (!why.empty()) {
    shape.chunks = schedule.least_chunks;
    why = refusal();
  }
  if (!why.empty()) return std::nullopt;
  return teach_pipeline(schedule, shape, times, transfer, 1);
}

/// The JSON of a compared schedule: the lesson's, its memory, and where its chunks lie.
nlohmann::ordered_json compared_json(const PipelineLesson& lesson, const PipelineSchedule& schedule) {
  nlohmann::ordered_json data = lesson_json(lesson);
  data["activations_peak_micro_batches"] = most_activations(lesson);
  data["copies"] = lesson.copies;
  data["parts"] = schedule.parts(lesson.shape);
  nlohmann::ordered_json& places = data["virtual_stages"] = nlohmann::ordered_json::array();
  for (int stage = 0; stage < lesson.shape.stages; ++stage) {
    std::vector<int> chunks;
    for (int chunk = 0; chunk < lesson.shape.chunks; ++chunk)
      chunks.push_back(schedule.virtual_stage(stage, chunk, lesson.shape));
    places.push_back(chunks);
  }
  return data;
}

std::vector<FieldRow> pipeline_json_rows() {
  return {{"schedule", "text", "name of the schedule", ""},
          {"stages", "number", "number of stages", ""},
          {"micro_batches", "number", "number of micro-batches of a step", ""},
          {"chunks", "number", "number of model chunks of a stage", ""},
          {"forward", "slots", "time of the forward pass of a micro-batch on a stage", ""},
          {"backward_input", "slots", "time of the gradients of its inputs", ""},
          {"backward_weights", "slots", "time of the gradients of its weights", ""},
          {"transfer", "slots", "time of a message from stage to stage", ""},
          {"time", "slots", "time of a single step", ""},
          {"ideal_time", "slots", "time of a step if no stage waited", ""},
          {"naive_time", "slots", "time of a step with one micro-batch at a time", ""},
          {"bubble_share", "share", "idle share of the stages' time in a single step", ""},
          {"bubble_over_ideal", "share", "idle time of a single step over ideal_time", ""},
          {"in_a_row", "object", "a step among many, in which stages begin the next as soon as they can", ""},
          {"in_a_row.time", "slots", "time of such a step", ""},
          {"in_a_row.bubble_share", "share", "idle share of the stages' time in such a step", ""},
          {"speed_up_over_naive", "number", "naive_time over time", ""},
          {"steps", "number", "number of steps in a row that the tasks show", ""},
          {"stage", "list", "figures of each stage", ""},
          {"stage[].works", "slots", "time that the stage works in one step", ""},
          {"stage[].idle", "slots", "time that the stage waits in a single step; works and idle sum to time", ""},
          {"stage[].activations_peak_micro_batches", "number",
           "most activations that it keeps, in those of a micro-batch", ""},
          {"stage[].tasks", "list", "passes of the stage in all steps shown, in the order of time", ""},
          {"stage[].tasks[].step", "number", "step of the pass, from 0", ""},
          {"stage[].tasks[].pass", "text", "name of the pass: forward, backward, …", ""},
          {"stage[].tasks[].micro_batch", "number", "micro-batch of the pass, from 0", ""},
          {"stage[].tasks[].chunk", "number", "model chunk of the pass, from 0", ""},
          {"stage[].tasks[].begin", "slots", "begin of the pass", ""},
          {"stage[].tasks[].end", "slots", "end of the pass", ""}};
}

std::vector<FieldRow> compared_json_rows() {
  std::vector<FieldRow> rows{{"chunks", "number", "number of model chunks that was asked for", ""}};
  for (const char* list : {"schedules", "other_chunks"}) {
    const bool chosen = rows.size() == 1;
    rows.push_back({list, "list",
                    chosen ? "one step of each schedule" : "one step of each schedule with other numbers of chunks",
                    ""});
    const std::string prefix = std::string(list) + "[].";
    const char* when = chosen ? "if the schedule runs this shape" : "";
    for (const FieldRow& row : pipeline_json_rows())
      rows.push_back({prefix + row.path, row.type, row.words, row.path == "schedule" ? "" : when});
    if (chosen) rows.push_back({prefix + "refused", "text", "reason why the schedule is left out", "otherwise"});
    rows.push_back({prefix + "activations_peak_micro_batches", "number",
                    "most activations that a stage keeps, in those of a micro-batch", when});
    rows.push_back({prefix + "copies", "number", "copies of the network that the stages hold together", when});
    rows.push_back({prefix + "parts", "number", "number of parts that the network is cut into", when});
    rows.push_back(
        {prefix + "virtual_stages", "list of lists", "number of the part in each chunk of each stage", when});
  }
  return rows;
}

const RegisterJsonReference pipeline_json_reference{"teach pipeline", "stages over time under a schedule",
                                                    pipeline_json_rows};
const RegisterJsonReference compared_json_reference{"teach pipeline --schedule all",
                                                    "all schedules on one scale of time", compared_json_rows};

}  // namespace

PipelineLesson teach_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape, const PipelineTimes& times,
                              double transfer, int steps) {
  PipelineLesson lesson;
  lesson.schedule = schedule.name;
  lesson.description = schedule.description;
  lesson.shape = shape;
  lesson.copies = schedule.copies;
  lesson.pairs_passes = schedule.pairs_passes;
  lesson.times = times;
  lesson.transfer = transfer;
  TrainingPlan plan = even_pipeline(schedule, shape, times, transfer);
  const auto run_steps = [&plan](int count) {
    plan.steps = count;
    return run_pipeline(plan);
  };
  PipelineRun alone = run_steps(1), in_a_row = run_steps(kStepsInARow);
  lesson.end = alone.end;
  lesson.period = in_a_row.step_end(2, kStepsInARow) - in_a_row.step_end(1, kStepsInARow);
  lesson.steps = steps > 0 ? steps : lesson.steps_overlap() ? kStepsInARow : 1;
  lesson.run = lesson.steps == 1              ? std::move(alone)
               : lesson.steps == kStepsInARow ? std::move(in_a_row)
                                              : run_steps(lesson.steps);
  const PipelineShape one_chunk{shape.stages, shape.micro_batches, 1};
  lesson.naive_end =
      run_pipeline(even_pipeline(find_pipeline_schedule("naive", one_chunk, {}), one_chunk, times, transfer)).end;
  return lesson;
}

LessonView compare_pipelines(const PipelineShape& shape, const PipelineTimes& times, double transfer, int labels_from) {
  LessonView view{
      fmt::format("all schedules: {}, {}", counted_noun(shape.stages, "stage"),
                  counted_noun(shape.micro_batches, "micro-batch", "micro-batches")),
      "Schedules one below the other on one scale of time: a row per stage, a cell per task of a micro-batch",
      {fmt::format(
          "a micro-batch on a stage: forward {:.6g}, backward {:.6g} ({:.6g} of it by the weights); a message: {:.6g}",
          times.forward, times.backward_input + times.backward_weights, times.backward_weights, transfer)}};
  LessonFrame tasks{.axis = LessonFrame::Axis::time};
  std::set<Pass> passes;
  nlohmann::ordered_json all = nlohmann::ordered_json::array(), others = nlohmann::ordered_json::array();
  view.figures.head = {"  schedule", "chunks", "      time", "  bubble", "in a row", "  activations", "  parameters"};
  view.figures.right = {false, true, true, true, true, true, true};
  view.figures.note =
      "bubble: idle share of the stages' time in one step; in a row: in one of many steps;\n"
      "activations: micro-batches that the fullest stage keeps; parameters: copies of the network";
  for (const std::string& name : pipeline_schedules().names()) {
    const PipelineSchedule& schedule = pipeline_schedules().find(name, {});
    std::string why;
    std::optional<PipelineLesson> lesson = lesson_of_schedule(schedule, shape, times, transfer, why);
    if (!lesson) {
      view.sums.push_back(fmt::format("{} is left out: {}", name, why));
      all.push_back({{"schedule", name}, {"refused", why}});
      continue;
    }
    lesson->labels_from = labels_from;
    tasks.end = std::max(tasks.end, lesson->end);
    const LessonFrame frame = pipeline_frames(*lesson).front();
    for (std::size_t s = 0; s < frame.lanes.size(); ++s)
      tasks.lanes.push_back({name, frame.lanes[s].actor, frame.lanes[s].bars});
    for (const PipelineTaskRun& run : lesson->run.stages.front()) passes.insert(run.task.pass);
    view.figures.rows.push_back({"  " + name, std::to_string(lesson->shape.chunks), fmt::format("{:.6g}", lesson->end),
                                 percent(std::max(0.0, lesson->bubble_share()), 3),
                                 percent(std::max(0.0, lesson->bubble_share_in_a_row()), 3),
                                 fmt::format("{:.6g}", most_activations(*lesson)), std::to_string(lesson->copies)});
    all.push_back(compared_json(*lesson, schedule));
    for (int chunks = schedule.least_chunks; chunks <= kMostComparedChunks; ++chunks) {
      PipelineShape other = lesson->shape;
      other.chunks = chunks;
      if (chunks != lesson->shape.chunks && (!schedule.refuses || schedule.refuses(other).empty()))
        others.push_back(compared_json(teach_pipeline(schedule, other, times, transfer, 1), schedule));
    }
  }
  tasks.legend = legend_of_passes(passes);
  view.frames = {std::move(tasks)};
  view.json =
      json_text(nlohmann::ordered_json{{"chunks", shape.chunks}, {"schedules", all}, {"other_chunks", others}}, 2);
  view.schedules = true;
  return view;
}

LessonView lesson_view(const PipelineLesson& lesson) {
  LessonView view{
      pipeline_title(lesson), "A row per stage with a cell per task of a micro-batch, over time", {lesson.description}};
  view.frames = pipeline_frames(lesson);
  view.sums = pipeline_sums(lesson);
  view.figures.head = {"  stage", "     works", "      idle", " keeps at most (activations of so many micro-batches)"};
  view.figures.right = {true, true, true};
  if (lesson.steps > 1)
    view.figures.note = fmt::format("works, idle: in one step alone; the picture has {} steps", lesson.steps);
  const double scale = std::min(1.0, 40 / most_activations(lesson));
  for (std::size_t s = 0; s < lesson.run.stages.size(); ++s) {
    const double kept = lesson.activations(s);
    const std::string bar(static_cast<std::size_t>(std::lround(kept * scale)), '#');
    view.figures.rows.push_back({std::to_string(static_cast<int>(s) + lesson.labels_from),
                                 fmt::format("{:.6g}", lesson.busy(s)), fmt::format("{:.6g}", lesson.idle(s)),
                                 fmt::format(" {:<8.6g}{}", kept, bar)});
  }
  view.json = json_text(lesson_json(lesson), 2);
  return view;
}

}  // namespace trainyard
