#include "scenarios/src/lessons/teach_pipeline.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace trainyard {

namespace {

constexpr int kStepsInARow = 3;  // the first is ramped up to; from the second to the third is a period

}  // namespace

PipelineLesson teach_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape, const PipelineTimes& times,
                              double transfer, int steps) {
  PipelineLesson lesson;
  lesson.schedule = schedule.name;
  lesson.description = schedule.description;
  lesson.shape = shape;
  lesson.times = times;
  lesson.transfer = transfer;
  TrainingPlan plan = even_pipeline(schedule, shape, times, transfer);
  const auto run_of = [&plan](int of_steps) {
    plan.steps = of_steps;
    return run_pipeline(plan);
  };
  PipelineRun alone = run_of(1), in_a_row = run_of(kStepsInARow);
  lesson.end = alone.end;
  lesson.period = in_a_row.step_end(2, kStepsInARow) - in_a_row.step_end(1, kStepsInARow);
  lesson.steps = steps > 0 ? steps : lesson.steps_overlap() ? kStepsInARow : 1;
  lesson.run = lesson.steps == 1              ? std::move(alone)
               : lesson.steps == kStepsInARow ? std::move(in_a_row)
                                              : run_of(lesson.steps);
  const PipelineShape whole{shape.stages, shape.micro_batches, 1};
  lesson.naive_end =
      run_pipeline(even_pipeline(find_pipeline_schedule("naive", whole, {}), whole, times, transfer)).end;
  return lesson;
}

nlohmann::ordered_json pipeline_report(const PipelineLesson& lesson) {
  nlohmann::ordered_json j{{"schedule", lesson.schedule},
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
                           {"stage", nlohmann::ordered_json::array()}};
  for (std::size_t stage = 0; stage < lesson.run.stages.size(); ++stage) {
    nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
    const std::vector<PipelineTaskRun>& runs = lesson.run.stages[stage];
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const PipelineTaskRun& run = runs[i];
      tasks.push_back({{"step", i * static_cast<std::size_t>(lesson.steps) / runs.size()},
                       {"pass", name_of(run.task.pass)},
                       {"micro_batch", run.task.micro_batch},
                       {"chunk", run.task.chunk},
                       {"begin", run.begin},
                       {"end", run.end}});
    }
    const double busy = lesson.run.busy(stage);
    j["stage"].push_back({{"works", busy},
                          {"idle", lesson.run.end - busy},
                          {"activations_peak_micro_batches", lesson.activations(stage)},
                          {"tasks", tasks}});
  }
  return j;
}

}  // namespace trainyard
