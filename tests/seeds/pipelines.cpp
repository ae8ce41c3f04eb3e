// PIPE-01 to PIPE-04, ACT-01, CUT-01, TASK-01, THREAD-01: pipelines of stages and of threads, and loops on threads.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/lessons/teach_threads.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/pipeline_run.hpp"
#include "scenarios/src/studies/layer_costs.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "scenarios/src/studies/sweeps/sweep_axes.hpp"
#include "sim/json_text.hpp"
#include "tests/seeds/scenario_trace.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

const PipelineSchedule& schedule_of(const std::string& name, const PipelineShape& shape) {
  return find_pipeline_schedule(name, shape, seed_place());
}

/// A pipeline with messages that take no time. By default a forward pass takes one slot, a backward pass two.
PipelineRun even_run(const std::string& name, const PipelineShape& shape, const PipelineTimes& times = {}) {
  return run_pipeline(even_pipeline(schedule_of(name, shape), shape, times, 0));
}

int integer_of(const Node& inputs, std::string_view key) { return static_cast<int>(number_of(inputs, key)); }

SeedFigures pipe_01(const Node& inputs) {
  const double backward = number_of(inputs, "Bk");
  const PipelineShape shape{integer_of(inputs, "K"), integer_of(inputs, "M"), 1};
  const PipelineRun run = even_run("naive", shape, {number_of(inputs, "F"), backward / 2, backward / 2});
  std::vector<std::pair<double, std::string>> tasks;
  for (std::size_t stage = 0; stage < run.stages.size(); ++stage)
    for (const PipelineTaskRun& task : run.stages[stage])
      tasks.emplace_back(task.begin,
                         fmt::format("{}{}", task.task.pass == PipelineTask::Pass::forward ? 'F' : 'B', stage));
  std::sort(tasks.begin(), tasks.end());
  std::string order;
  for (const auto& [begin, name] : tasks) order += (order.empty() ? "" : " ") + name;
  return {{"total_time", run.end}, {"utilisation", run.utilisation()}, {"order", order}};
}

SeedFigures pipe_02(const Node& inputs) {
  const PipelineShape shape{integer_of(inputs, "K"), integer_of(inputs, "M"), 1};
  const PipelineRun gpipe = even_run("gpipe", shape);
  return {{"utilisation", gpipe.utilisation()},
          {"percent_rounded", std::lround(100 * gpipe.utilisation())},
          {"speedup_vs_naive", even_run("naive", shape).end / gpipe.end}};
}

SeedFigures pipe_03(const Node& inputs) {
  SeedFigures got;
  for (const double stages : numbers_of(inputs, "K"))
    for (const double micro_batches : numbers_of(inputs, "M"))
      got[fmt::format("utilisation {} {}", stages, micro_batches)] =
          even_run("gpipe", {static_cast<int>(stages), static_cast<int>(micro_batches), 1}).utilisation();
  const int stage_count = integer_of(inputs, "enough_for_K");
  int enough = 1;
  while (even_run("gpipe", {stage_count, enough, 1}).utilisation() < number_of(inputs, "enough")) ++enough;
  got["micro_batches_enough"] = enough;
  return got;
}

SeedFigures pipe_04(const Node& inputs) {
  SeedFigures got;
  for (const double v : numbers_of(inputs, "v")) {
    const PipelineShape shape{integer_of(inputs, "K"), integer_of(inputs, "M"), static_cast<int>(v)};
    const double utilisation = even_run(v > 1 ? "interleaved-1f1b" : "1f1b", shape).utilisation();
    got[fmt::format("bubble_over_ideal {}", v)] = (1 - utilisation) / utilisation;
    got[fmt::format("utilisation {}", v)] = utilisation;
  }
  return got;
}

SeedFigures act_01(const Node& inputs) {
  const PipelineShape shape{integer_of(inputs, "K"), integer_of(inputs, "M"), 1};
  const PipelineRun gpipe = even_run("gpipe", shape), one_f_one_b = even_run("1f1b", shape);
  return {{"gpipe_first_stage", gpipe.in_flight.front()},
          {"one_f_one_b_first_stage", one_f_one_b.in_flight.front()},
          {"one_f_one_b_last_stage", one_f_one_b.in_flight.back()},
          {"same_total_time", gpipe.end == one_f_one_b.end}};
}

/// Simulates every cut of the chain of layers into two stages.
SeedFigures cut_01(const Node& inputs) {
  const auto file = shipped_file("tests/seeds/" + words_of(inputs, "scenario").front());
  const Sweep sweep{file, {{"plan.pipeline.layers", layer_cuts(read_scenario(file))}}};
  std::vector<double> step_times;  // s, by cut
  for (const SweepPoint& point : run_sweep(sweep)) step_times.push_back(parse_json(point.figures).at("step_time_s"));
  const auto best = std::min_element(step_times.begin(), step_times.end());
  const Scenario s = read_scenario(file, sweep.point(static_cast<std::size_t>(best - step_times.begin())));
  const TrainingPlan laid_out = plan(s).training;
  SeedFigures got;
  for (std::size_t i = 0; i < step_times.size(); ++i)
    got["step_ms " + sweep.axes.front().values[i]] = step_times[i] * 1e3;
  std::vector<std::string> layers, stages;
  for (int rank = 0; rank < 2; ++rank) {
    double stage_ms = 0;
    for (const LayerCost& layer : layer_costs(s, laid_out, rank).layers) {
      stage_ms += layer.forward.time.value * 1e3;
      layers.push_back(fmt::format("{:.4g}", layer.forward.time.value * 1e3));
    }
    stages.push_back(fmt::format("{:.4g}", stage_ms));
    if (rank == 0) got["best_cut_after_layer"] = layers.size();
  }
  const Scenario balanced = read_scenario(file, {{"plan.pipeline.layers", "balanced"}});
  got["balanced_cut_after_layer"] = plan(balanced).training.stages.front().chunks.front().size();
  got["layers_ms"] = fmt::format("{}", fmt::join(layers, " "));
  got["stage_ms"] = fmt::format("{}", fmt::join(stages, " "));
  MessageTrace trace;
  run_step(s, {&trace});
  got["cut_MB"] = std::get<double>(trace.messages().front()) * 1e-6;
  return got;
}

/// Compares two functions as a pipeline of two threads with both functions on one thread.
SeedFigures task_01(const Node& inputs) {
  const ThreadLesson pipelined =
      teach_tasks(integer_of(inputs, "items"), {number_of(inputs, "tf"), number_of(inputs, "tg")}, 2, 0);
  return {{"serial_slots", pipelined.serial},
          {"pipelined_slots", pipelined.end},
          {"speedup", pipelined.speed_up()},
          {"thread1_idle_slots", pipelined.end - pipelined.busy(1)}};
}

/// Threads take the items of a loop in turn. Each item takes one slot.
SeedFigures thread_01(const Node& inputs) {
  SeedFigures got;
  for (const double threads : numbers_of(inputs, "threads")) {
    const ThreadLesson lesson = teach_loop(integer_of(inputs, "items"), static_cast<int>(threads));
    got[fmt::format("slots {}", threads)] = lesson.end;
    got[fmt::format("idle_threads {}", threads)] = lesson.idle_threads();
  }
  return got;
}

const RegisterSeed stage_seeds[] = {{"PIPE-01", pipe_01}, {"PIPE-02", pipe_02},    {"PIPE-03", pipe_03},
                                    {"PIPE-04", pipe_04}, {"ACT-01", act_01},      {"CUT-01", cut_01},
                                    {"TASK-01", task_01}, {"THREAD-01", thread_01}};

}  // namespace
}  // namespace trainyard
