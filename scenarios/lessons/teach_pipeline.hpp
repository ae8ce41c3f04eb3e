#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scenarios/running/pipeline_run.hpp"

namespace trainyard {

/// A pipeline schedule as it ran on equal stages, and the naive one beside it. Times in slots: whatever the user counts
/// in.
struct PipelineLesson {
  std::string schedule, description;
  PipelineShape shape;
  PipelineTimes times;  ///< of one micro-batch on a whole stage
  double transfer = 0;
  PipelineRun run;
  double naive_end = 0;  ///< one micro-batch at a time, on the same stages
  int labels_from = 0;   ///< number of the first stage and the first micro-batch in pictures and tables

  /// What a stage would take if it never waited.
  double ideal() const { return (times.forward + times.backward_input + times.backward_weights) * shape.micro_batches; }
  double bubble_share() const { return 1 - run.utilisation(); }
  double bubble_over_ideal() const { return bubble_share() / run.utilisation(); }
  double speed_up() const { return naive_end / run.end; }
  /// Activations that a stage keeps at most, in those of one micro-batch.
  double activations(std::size_t stage) const { return static_cast<double>(run.in_flight.at(stage)) / shape.chunks; }
};

/// Simulates both, in children.
PipelineLesson teach_pipeline(const PipelineSchedule&, const PipelineShape&, const PipelineTimes&, double transfer);

nlohmann::ordered_json pipeline_report(const PipelineLesson&);

}  // namespace trainyard
