#include "scenarios/src/running/pipeline_run.hpp"

#include <algorithm>

#include "sim/executor/simulation.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/timeline.hpp"
#include "strategies/step/training_programs.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

/// Makes a layer with one forward kernel and two backward kernels. It keeps one byte of activations, so that memory
/// counts micro-batches.
Layer layer_of(const PipelineTimes& times, double transfer, double kept_share) {
  Layer layer;
  KernelCall& forward = layer.forward.emplace_back();
  forward.work.flops = Flops{times.forward};
  BackwardKernel& by_input = layer.backward.emplace_back();
  by_input.work.flops = Flops{times.backward_input};
  BackwardKernel& by_weights = layer.backward.emplace_back();
  by_weights.work.flops = Flops{times.backward_weights};
  by_weights.for_weights = true;
  layer.kept_for_weights = Bytes{kept_share};
  layer.saved_tensors = {{"activations", Bytes{1}}};
  layer.output = Bytes{transfer * IdealMachine::kBytesPerSecond};
  return layer;
}

PipelineTimes mean_of_stage(const std::vector<PipelineTimes>& parts, int stages) {
  PipelineTimes mean{0, 0, 0};
  for (const PipelineTimes& part : parts) {
    mean.forward += part.forward / stages;
    mean.backward_input += part.backward_input / stages;
    mean.backward_weights += part.backward_weights / stages;
  }
  return mean;
}

std::size_t kernels_of(PipelineTask::Pass pass) { return pass == PipelineTask::Pass::backward ? 2 : 1; }

}  // namespace

TrainingPlan pipeline_plan(const PipelineSchedule& schedule, const PipelineShape& shape,
                           const std::vector<PipelineTimes>& times, const std::vector<double>& transfers) {
  TrainingPlan plan;
  plan.mesh.pipeline = shape.stages;
  plan.mesh.copies = schedule.copies;
  plan.micro_batches = shape.micro_batches;
  plan.pipeline = shape;
  plan.pipeline.figures.times = mean_of_stage(times, shape.stages);
  plan.pipeline.figures.transfer = transfers.empty() ? 0 : std::ranges::max(transfers);
  plan.schedule = &schedule;
  plan.overlap_pipeline = true;
  Network network;
  std::vector<std::vector<int>> layers;
  for (std::size_t part = 0; part < times.size(); ++part) {
    network.layers.push_back(
        layer_of(times[part], part < transfers.size() ? transfers[part] : 0, shape.figures.kept_share));
    layers.push_back({static_cast<int>(part)});
  }
  plan.network = std::make_shared<const Network>(std::move(network));
  divide(plan, layers, {});
  return plan;
}

TrainingPlan even_pipeline(const PipelineSchedule& schedule, const PipelineShape& shape, const PipelineTimes& stage,
                           double transfer) {
  const auto parts = static_cast<std::size_t>(schedule.parts(shape));
  const double chunks_per_part = static_cast<double>(shape.chunks) / schedule.copies;
  return pipeline_plan(
      schedule, shape,
      std::vector<PipelineTimes>(parts, {stage.forward / chunks_per_part, stage.backward_input / chunks_per_part,
                                         stage.backward_weights / chunks_per_part}),
      std::vector<double>(parts - 1, transfer));
}

double PipelineRun::step_end(int step, int steps) const {
  double latest = 0;
  for (const std::vector<PipelineTaskRun>& tasks : stages) {
    const std::size_t step_tasks = tasks.size() / static_cast<std::size_t>(steps);
    latest = std::max(latest, tasks.at(step_tasks * static_cast<std::size_t>(step + 1) - 1).end);
  }
  return latest;
}

double PipelineRun::busy(std::size_t stage) const {
  double sum = 0;
  for (const PipelineTaskRun& run : stages.at(stage)) sum += run.end - run.begin;
  return sum;
}

double PipelineRun::busy() const {
  double sum = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) sum += busy(stage);
  return sum;
}

PipelineRun run_pipeline(const TrainingPlan& plan) {
  IdealMachine machine("stage");
  for (int v = 1; v < plan.virtual_stages(); ++v) {
    const int before = plan.schedule->place_of(v - 1, plan.pipeline).stage,
              stage = plan.schedule->place_of(v, plan.pipeline).stage;
    machine.connect(before, stage);
    machine.connect(stage, before);
  }
  Names names;
  const TrainingPrograms programs(plan, names);
  Timeline timeline;
  MemoryUse memory;
  PipelineRun run;
  run.end = run_programs(machine, programs.programs(), {{&timeline, &memory}}).end.value;
  std::vector<std::vector<const OpRecord*>> kernels(static_cast<std::size_t>(plan.ranks()));
  for (const OpRecord& record : timeline.records())
    if (record.kind != Kind::mark && record.group == programs.tables().words().compute)
      kernels[position(record.actor)].push_back(&record);
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    std::vector<PipelineTaskRun>& tasks = run.stages.emplace_back();
    std::size_t next = 0;
    for (int step = 0; step < plan.steps; ++step)
      for (const PipelineTask& task : plan.stages[stage].tasks) {
        const std::size_t last = next + kernels_of(task.pass) - 1;
        tasks.push_back({task, kernels[stage].at(next)->started, kernels[stage].at(last)->ended});
        next = last + 1;
      }
    run.in_flight.push_back(memory.peak(static_cast<Actor>(stage)).value);
  }
  return run;
}

}  // namespace trainyard
