#pragma once
#include <string>

#include "scenarios/src/lessons/lesson_view.hpp"
#include "scenarios/src/running/pipeline_run.hpp"

namespace trainyard {

/// A pipeline schedule as it ran on equal stages, and the naive one beside it. Times in slots: whatever the user counts
/// in.
struct PipelineLesson {
  std::string schedule, description;
  PipelineShape shape;
  PipelineTimes times;  ///< of one micro-batch on a whole stage
  double transfer = 0;
  int steps = 1;  ///< that `run` has, in a row
  PipelineRun run;
  double end = 0;        ///< of one step alone: its ramps at both ends are in it
  double period = 0;     ///< of a step among many in a row, where each stage goes on to the next one by itself
  double naive_end = 0;  ///< one micro-batch at a time, on the same stages
  int labels_from = 0;   ///< number of the first stage and the first micro-batch in pictures and tables

  /// What a stage would take if it never waited.
  double ideal() const { return (times.forward + times.backward_input + times.backward_weights) * shape.micro_batches; }
  double bubble_share() const { return 1 - ideal() / end; }
  double bubble_over_ideal() const { return end / ideal() - 1; }
  double bubble_share_in_a_row() const { return 1 - ideal() / period; }
  /// Is its point between the steps?
  bool steps_overlap() const { return period < end * (1 - 1e-9); }
  double speed_up() const { return naive_end / end; }
  /// Activations that a stage keeps at most, in those of one micro-batch.
  double activations(std::size_t stage) const { return static_cast<double>(run.in_flight.at(stage)) / shape.chunks; }
};

/// Simulates both. `steps`: so many of `run`; 0: one, or several where steps in a row overlap.
PipelineLesson teach_pipeline(const PipelineSchedule&, const PipelineShape&, const PipelineTimes&, double transfer,
                              int steps = 0);

LessonView lesson_view(const PipelineLesson&);

}  // namespace trainyard
