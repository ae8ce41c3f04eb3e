#pragma once
#include <vector>

#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// Lays out a training step that is only a pipeline, as papers draw it, for `run_pipeline`: one layer for each part of
/// the network, no parameters, and messages that overlap with the sender's next pass. `times`: by part, which is a
/// virtual stage of each copy of the network. `transfers`: the time of a message from each part to the next, and of its
/// gradient on the way back; one entry fewer than `times`. `PipelineShape::figures` has the kept share and the limit of
/// activations; its times are computed here. The schedule must outlive the plan.
TrainingPlan pipeline_plan(const PipelineSchedule&, const PipelineShape&, const std::vector<PipelineTimes>& times,
                           const std::vector<double>& transfers);
/// Does the same with equal virtual stages. `stage`: times of one micro-batch on a whole stage, which the chunks that
/// it goes through share evenly.
TrainingPlan even_pipeline(const PipelineSchedule&, const PipelineShape&, const PipelineTimes& stage, double transfer);

struct PipelineTaskRun {
  PipelineTask task;
  double begin = 0, end = 0;  // s
};
struct PipelineRun {
  double end = 0;                                    // s
  std::vector<std::vector<PipelineTaskRun>> stages;  ///< tasks of each stage in order, step by step
  /// For each stage: the most chunks × micro-batches whose activations it keeps at a time, from the start of the
  /// forward pass to the end of the backward pass (if it is split, of its part for the weights; between both parts it
  /// keeps `StageFigures::kept_share` of them).
  std::vector<double> in_flight;

  /// Returns the time at which the last stage ends its work of a step, s. `steps`: number of steps of the run.
  double step_end(int step, int steps) const;
  double busy(std::size_t stage) const;  ///< s
  double busy() const;                   ///< s, sum over all stages
  /// Returns the share of the stages' time in which they work; the rest is the bubble.
  double utilisation() const { return busy() / (end * static_cast<double>(stages.size())); }
};

/// Runs the training program of a plan by `pipeline_plan` on an IdealMachine. Each stage begins the next step when it
/// has done its own work. Throws Deadlock if stages wait for each other.
PipelineRun run_pipeline(const TrainingPlan&);

}  // namespace trainyard
