#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/sweeps/sweep.hpp"

namespace trainyard {

/// The axes of a sweep's chart. Empty: chosen by the points, as on the page of the sweep.
struct SweepChartAxes {
  std::string across;  ///< path of a swept field
  std::string up;      ///< name of a column
  bool has_any() const { return !(across + up).empty(); }
};
/// Throws UserError with the nearest name for a field that the sweep does not have, and for an unknown column.
void check_chart_axes(const Sweep&, const SweepChartAxes&);

/// Returns true if the picture of scaling shows these points: their numbers of devices differ, and those with the same
/// number have no words of their own, such as 8W2PS and 8W4PS.
bool shows_scaling(const Sweep&, const std::vector<SweepPoint>&);

/// Draws a column over a swept field as SVG, with a line for each combination of the other fields. A field without
/// numbers, or with several units, has its values as labels, in the order of its list. Throws UserError if no possible
/// point has the column.
std::string sweep_chart(const Sweep&, const std::vector<SweepPoint>&, const SweepChartAxes&);

}  // namespace trainyard
