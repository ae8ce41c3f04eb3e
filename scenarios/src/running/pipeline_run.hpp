#pragma once
#include <vector>

#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// What a pipeline stage, or a virtual one, takes for one micro-batch, in s (or in whatever slots a figure counts in). A
/// backward pass that is not split takes the sum of both parts.
struct PipelineTimes {
  double forward = 1, backward_input = 1, backward_weights = 1;
};

/// A training step that is a pipeline and nothing else, as the papers draw it, laid out for `run_pipeline`: a layer for
/// each virtual stage, no parameters, and messages that leave while their sender goes on. `transfers`: the time of a
/// message from each virtual stage to the next, and of its gradient on the way back; one fewer than `times`. The schedule
/// must outlive the plan.
TrainingPlan pipeline_plan(const PipelineSchedule&, const PipelineShape&, const std::vector<PipelineTimes>& times,
                           const std::vector<double>& transfers);
/// All virtual stages alike: `whole` is what a stage takes, which its chunks share evenly.
TrainingPlan even_pipeline(const PipelineSchedule&, const PipelineShape&, const PipelineTimes& whole, double transfer);

struct PipelineTaskRun {
  PipelineTask task;
  double begin = 0, end = 0;  // s
};
struct PipelineRun {
  double end = 0;                                    // s
  std::vector<std::vector<PipelineTaskRun>> stages;  ///< in order, those of later steps behind those of earlier ones
  /// Of each stage, chunks × micro-batches whose activations it keeps at most: from the start of the forward pass to the
  /// end of the backward pass (of its part for the weights, where it is split).
  std::vector<int> in_flight;

  /// When the last stage has done its work of a step, of `steps` in the run, s.
  double step_end(int step, int steps) const;
  double busy(std::size_t stage) const;  ///< s
  double busy() const;                   ///< s, of all stages
  /// Part of the stages' time in which they work; the rest is the bubble.
  double utilisation() const { return busy() / (end * static_cast<double>(stages.size())); }
};

/// Runs the training program of such a plan on an IdealMachine: its steps one after the other, each stage on
/// the next one as soon as it has done its own work. Throws Deadlock where the orders of the
/// stages wait for each other.
PipelineRun run_pipeline(const TrainingPlan&);

}  // namespace trainyard
