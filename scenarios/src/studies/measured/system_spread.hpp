#pragma once
#include <map>
#include <string>
#include <vector>

namespace trainyard {

/// Errors of predictions, ln(predicted / measured), indexed by the measured system.
using SystemErrors = std::map<std::string, std::vector<double>>;

/// Returns the quantile of |error| over the systems of a kind. A system weighs the square root of its number of errors.
/// All systems of other kinds together count as one more, of mean weight.
double spread_of_kind(const SystemErrors& kind_errors, const std::vector<const SystemErrors*>& other_kinds,
                      double probability);

}  // namespace trainyard
