#pragma once
#include <cstddef>
#include <vector>

namespace trainyard {

/// log(predicted / measured) of one measured row by the constants as they are, and how it depends on them.
struct ConstantRow {
  std::size_t family = 0;
  double error = 0;
  std::vector<double> slope;  ///< d error / d log(constant)
};

/// One constant fitted again.
struct ConstantChange {
  bool told = false;  ///< by the rows; else it stays where it is without them
  double log = 0;     ///< by which its logarithm changes
};

/// How far, as a logarithm, a constant is taken to be from what it is without rows: one standard deviation.
constexpr double kConstantSpread = 0.3;

/// Constants as measured rows tell them that depend on them linearly. `without`: the changes that leave a constant out,
/// which is where it is expected while nothing is known. The most probable changes: a row is off by 3 %, all rows of a
/// family together by as much again; rows that are off by more than twice that count by their error, not its square. A
/// constant is told where rows make it less uncertain by a tenth.
std::vector<ConstantChange> refit_constants(const std::vector<double>& without, const std::vector<ConstantRow>& rows);

}  // namespace trainyard
