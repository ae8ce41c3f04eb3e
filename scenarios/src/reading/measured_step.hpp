#pragma once
#include <string>
#include <vector>

#include "scenarios/src/reading/read_network.hpp"

namespace trainyard {

/// Measured step times of one device: `plan.measured_step: {network: resnet50, table: {1: 4.2 ms, 32: 5.9 ms},
/// source: …}`. A step is forward, backward, update and the framework's own work; the batch is that of the device.
struct MeasuredSteps {
  struct Row {
    std::int64_t batch = 0;
    Seconds time;
  };
  std::vector<Row> rows;  ///< by rising batch; none: nothing was measured
  std::string network;    ///< whose steps these are
  std::string source;
  Place place, network_place;

  bool given() const { return !rows.empty(); }
  /// Linear between the two neighbours. Throws UserError, at the place of the table, outside of it.
  Seconds at(std::int64_t batch) const;
  /// "measured", "interpolated between 32 and 64".
  std::string how(std::int64_t batch) const;
};

/// Refuses times that are not above 0, batches that do not rise, and a table without a source, each with its place.
MeasuredSteps read_measured_steps(const Node&);

/// Refuses steps of another network than the model: of another name, or, where the catalog has a network of that name,
/// one whose kernels compute something else (a GPT-2 of two layers is no GPT-2).
void require_steps_of(const MeasuredSteps&, const ModelChoice&, Precision, const Catalog&);

}  // namespace trainyard
