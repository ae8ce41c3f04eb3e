#pragma once
#include <cstddef>
#include <vector>

namespace trainyard {

/// The error log(predicted / measured) of one measured row with the current constants, and its derivatives.
struct ConstantRow {
  std::size_t family = 0;
  double error = 0;
  std::vector<double> slope;  ///< d error / d log(constant)
};

/// The result of the refit of one constant.
struct ConstantChange {
  bool is_determined = false;  ///< the rows determine it; false: it keeps its prior value
  double log = 0;              ///< change of its logarithm
};

/// Standard deviation of the prior of a constant's logarithm.
constexpr double kConstantSpread = 0.3;

/// Refits constants to measured rows whose errors depend linearly on the logarithms of the constants. `without`: for
/// each constant, the change that has the same effect as leaving it out; it is the mean of the prior. Returns the most
/// probable changes. A row has an error of 3 %, and all rows of a family share a further error of 3 %. Errors above
/// twice that count linearly instead of squared. Rows determine a constant if they reduce its uncertainty by at least a
/// tenth.
std::vector<ConstantChange> refit_constants(const std::vector<double>& without, const std::vector<ConstantRow>& rows);

}  // namespace trainyard
