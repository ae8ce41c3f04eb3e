#include "strategies/pipelines/pipeline_schedule.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"

namespace trainyard {

const char* name_of(PipelineTask::Pass pass) {
  static constexpr const char* names[] = {"forward", "backward", "backward by the input", "backward by the weights"};
  return names[static_cast<std::size_t>(pass)];
}

PipelinePlace PipelineSchedule::place_of(int virtual_stage, const PipelineShape& shape) const {
  if (place) return place(virtual_stage, shape);
  return {virtual_stage % shape.stages, virtual_stage / shape.stages};
}

StageOrders PipelineSchedule::orders(const PipelineShape& shape) const {
  if (solve) return solve(shape);
  if (all_tasks) return all_tasks(shape);
  StageOrders all;
  for (int stage = 0; stage < shape.stages; ++stage) all.push_back(tasks(stage, shape));
  return all;
}

int PipelineSchedule::virtual_stage(int stage, int chunk, const PipelineShape& shape) const {
  if (!place) return chunk * shape.stages + stage;
  for (int v = 0; v < shape.stages * shape.chunks; ++v)
    if (const PipelinePlace found = place(v, shape); found.stage == stage && found.chunk == chunk) return v;
  throw InternalError(fmt::format("pipeline schedule {}: chunk {} of stage {} is nowhere", name, chunk, stage));
}

std::vector<PipelineTask> one_stage_tasks(int micro_batches, bool pairs_passes) {
  const int ahead = pairs_passes ? 1 : 0;
  std::vector<PipelineTask> tasks;
  for (int i = 0; i < micro_batches + ahead; ++i) {
    if (i < micro_batches) tasks.push_back({PipelineTask::Pass::forward, i, 0, pairs_passes && i >= ahead});
    if (i >= ahead) tasks.push_back({PipelineTask::Pass::backward, i - ahead, 0});
  }
  return tasks;
}

Registry<PipelineSchedule>& pipeline_schedules() {
  static Registry<PipelineSchedule> registry{"pipeline schedule", {".yaml"}, read_pipeline_schedule};
  return registry;
}

const PipelineSchedule& find_pipeline_schedule(const std::string& name, const PipelineShape& shape,
                                               const Place& where) {
  const PipelineSchedule& found = pipeline_schedules().find(name, where);
  const auto at_least_one = [&](int value, const char* what) {
    if (value < 1) fail(where, fmt::format("a pipeline of {} {}; at least 1", value, what));
  };
  at_least_one(shape.stages, "stages");
  at_least_one(shape.micro_batches, "micro-batches");
  at_least_one(shape.chunks, "model chunks a stage");
  if (const std::string why = found.refuses ? found.refuses(shape) : ""; !why.empty())
    fail(where, fmt::format("pipeline schedule {}: {}", found.name, why));
  return found;
}

}  // namespace trainyard
