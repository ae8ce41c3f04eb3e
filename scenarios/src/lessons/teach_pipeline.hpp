#pragma once
#include <string>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "scenarios/src/running/pipeline_run.hpp"

namespace trainyard {

/// A simulated pipeline schedule on equal stages, and the naive schedule for comparison. Times are in slots, the unit
/// of the user's numbers.
struct PipelineLesson {
  std::string schedule, description;
  PipelineShape shape;
  int copies = 1;             ///< number of copies of the network that the stages hold
  bool pairs_passes = false;  ///< passes that stand side by side alternate layer by layer, if layers exchange data
  PipelineTimes times;        ///< times of one micro-batch on a whole stage
  double transfer = 0;
  int steps = 1;  ///< number of consecutive steps in `run`
  PipelineRun run;
  double end = 0;        ///< time of a single step, including warm-up and drain
  double period = 0;     ///< mean time of a step among many, when each stage starts its next step as soon as it can
  double naive_end = 0;  ///< time of a step with one micro-batch at a time on the same stages
  int labels_from = 0;   ///< number of the first stage and the first micro-batch in pictures and tables

  /// Returns the time of a step if a stage never waited.
  double ideal() const { return (times.forward + times.backward_input + times.backward_weights) * shape.micro_batches; }
  double bubble_share() const { return 1 - ideal() / end; }
  double bubble_over_ideal() const { return end / ideal() - 1; }
  double bubble_share_in_a_row() const { return 1 - ideal() / period; }
  /// Returns true if consecutive steps overlap, so that a step takes less time than a single one.
  bool steps_overlap() const { return period < end * (1 - 1e-9); }
  double speed_up() const { return naive_end / end; }
  /// Returns the time that a stage works in one step. All steps of `run` have the same passes.
  double busy(std::size_t stage) const { return run.busy(stage) / steps; }
  /// Returns the time that a stage waits in a single step.
  double idle(std::size_t stage) const { return end - busy(stage); }
  /// Peak of a stage's stored activations, in units of the activations of one micro-batch.
  double activations(std::size_t stage) const { return run.in_flight.at(stage) * copies / shape.chunks; }
};

/// Simulates the schedule and the naive one. `steps`: number of steps in `run`; 0: one, or several if steps overlap.
PipelineLesson teach_pipeline(const PipelineSchedule&, const PipelineShape&, const PipelineTimes&, double transfer,
                              int steps = 0);

LessonView lesson_view(const PipelineLesson&);

/// Shows one step of all schedules one below the other, on one scale of time. Schedules that refuse the number of chunks
/// get their least one; those that refuse the shape are named with their reason. `labels_from`: see PipelineLesson.
LessonView compare_pipelines(const PipelineShape&, const PipelineTimes&, double transfer, int labels_from = 0);

}  // namespace trainyard
