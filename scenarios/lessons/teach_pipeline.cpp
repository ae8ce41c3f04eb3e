#include "scenarios/lessons/teach_pipeline.hpp"

#include <nlohmann/json.hpp>

namespace trainyard {

PipelineLesson teach_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape, const PipelineTimes& times,
                              double transfer) {
  PipelineLesson lesson{schedule.name, schedule.description, shape, times, transfer, {}, 0, 0};
  lesson.run = run_pipeline(even_pipeline(schedule, shape, times, transfer));
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
                           {"time", lesson.run.end},
                           {"ideal_time", lesson.ideal()},
                           {"naive_time", lesson.naive_end},
                           {"bubble_share", lesson.bubble_share()},
                           {"bubble_over_ideal", lesson.bubble_over_ideal()},
                           {"speed_up_over_naive", lesson.speed_up()},
                           {"stage", nlohmann::ordered_json::array()}};
  for (std::size_t stage = 0; stage < lesson.run.stages.size(); ++stage) {
    nlohmann::ordered_json tasks = nlohmann::ordered_json::array();
    for (const PipelineTaskRun& run : lesson.run.stages[stage])
      tasks.push_back({{"pass", name_of(run.task.pass)},
                       {"micro_batch", run.task.micro_batch},
                       {"chunk", run.task.chunk},
                       {"begin", run.begin},
                       {"end", run.end}});
    const double busy = lesson.run.busy(stage);
    j["stage"].push_back({{"works", busy},
                          {"idle", lesson.run.end - busy},
                          {"activations_peak_micro_batches", lesson.activations(stage)},
                          {"tasks", tasks}});
  }
  return j;
}

}  // namespace trainyard
