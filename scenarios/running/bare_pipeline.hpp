#pragma once
#include <vector>

#include "strategies/pipelines/pipeline_schedule.hpp"

namespace trainyard {

/// A pipeline as the papers draw it: tasks that take given times, messages between neighbours, nothing else. Times in s
/// (or in whatever slots a figure counts in).
struct BarePipeline {
  /// Of one micro-batch. A backward pass that is not parted takes the sum of both.
  struct Times {
    double forward = 1, backward_input = 1, backward_weights = 1;
  };

  PipelineShape shape;
  std::vector<std::vector<PipelineTask>> tasks;  ///< by stage, in order
  std::vector<PipelinePlace> places;             ///< of virtual stages
  std::vector<Times> times;                      ///< of virtual stages
  /// Of the message from each virtual stage to the next, and of its gradient's on the way back; one fewer than these.
  /// Between virtual stages of one stage no message is needed.
  std::vector<double> transfers;
};

/// All virtual stages alike: `whole` is what a stage takes, which its chunks share evenly.
BarePipeline even_pipeline(const PipelineSchedule&, const PipelineShape&, const BarePipeline::Times& whole,
                           double transfer);

struct PipelineTaskRun {
  PipelineTask task;
  double begin = 0, end = 0;  // s
};
struct PipelineRun {
  double end = 0;                                    // s
  std::vector<std::vector<PipelineTaskRun>> stages;  ///< in order
  /// Of each stage, chunks × micro-batches whose activations it keeps at most: from the start of the forward pass to the
  /// end of the backward pass (of the part by the weights, where parted).
  std::vector<int> in_flight;

  double busy(std::size_t stage) const;  ///< s
  double busy() const;                   ///< s, of all stages
  /// Part of the stages' time in which they work; the rest is the bubble.
  double utilisation() const { return busy() / (end * static_cast<double>(stages.size())); }
};

/// Simulates it on an IdealMachine, in a child. Throws Deadlock where the orders of the stages wait for each other.
PipelineRun run_pipeline(const BarePipeline&);

}  // namespace trainyard
