#pragma once
#include <string>
#include <vector>

#include "scenarios/src/reading/read_network.hpp"

namespace trainyard {

/// Measured step times of one device: `plan.measured_step: {network: resnet50, table: {1: 4.2 ms, 32: 5.9 ms},
/// source: …}`. A step is forward pass, backward pass, update and host work of the framework. Batches are those of one
/// device.
struct MeasuredSteps {
  struct Row {
    std::int64_t batch = 0;
    Seconds time;
  };
  std::vector<Row> rows;  ///< sorted by rising batch; empty: nothing was measured
  std::string network;    ///< name of the measured network
  std::string source;
  Place place, network_place;

  bool is_given() const { return !rows.empty(); }
  /// Returns the time of a step, interpolated linearly between neighbouring batches. Throws UserError at the place of
  /// the table for a batch outside it.
  Seconds step_time(std::int64_t batch) const;
  /// Describes how that time is known: "measured", "interpolated between 32 and 64".
  std::string provenance(std::int64_t batch) const;
};

/// Reads a table of step times. Throws UserError with the place for times that are not above 0, batches that do not
/// rise, and a table without a source.
MeasuredSteps read_measured_steps(const Node&);

/// Throws UserError if the steps belong to another network than the model: if the names differ, or if the catalog has a
/// network of that name with other kernels (a GPT-2 with two layers is not the catalog's gpt2).
void require_steps_of(const MeasuredSteps&, const ModelChoice&, Precision, const Catalog&);

}  // namespace trainyard
