#pragma once
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trainyard {

/// Pattern search (Hooke & Jeeves 1961): along each axis, a step that lowers the error is taken and the next one is
/// longer; otherwise the next one is shorter. Moves `point`, which `error` reads, to the point of the least error found
/// and returns that error. Deterministic.
double pattern_search(std::span<double> point, const std::function<double()>& error);

/// A constant of a model that a search moves on a logarithmic scale: it becomes min(`most`, `start` · e^`logarithm`) ·
/// `scale`.
struct SearchedConstant {
  const char* key;
  double* value;
  double start = 1, most = HUGE_VAL, scale = 1;
  double logarithm = 0;
  void move_to(double target) { *value = std::min(most, start * std::exp(logarithm = target)) * scale; }
};
/// Moves all constants by pattern search to the point of the least error found, and returns that error.
double search(std::vector<SearchedConstant>&, const std::function<double()>& error);
/// Returns the keys of constants that hardly change the error. The logarithm of each constant is moved up and down by
/// `move`; `makes_difference` is asked about the error of each, and denies both.
std::vector<std::string> undetermined_constants(std::vector<SearchedConstant>, double move,
                                                const std::function<double()>& error,
                                                const std::function<bool(double)>& makes_difference);

/// Does a row belong to the half of a measured table that is fitted? The other half judges the fit. A hash of the row's
/// shape decides, so that all rows of one shape are in the same half.
bool is_fitted(const std::string& shape);

/// Throws InternalError if there are no values.
double median_of(std::vector<double>);

/// Median, mean and 90th percentile of |predicted / measured − 1|.
struct FitErrors {
  double median = 0, mean = 0, p90 = 0;
};
/// Throws InternalError if there are no errors.
FitErrors fit_errors(std::vector<double> errors);

/// Returns the quantile at `share` (0 to 1) of sorted values, interpolated between the two nearest ranks. Throws
/// InternalError if there are no values.
double sorted_quantile(const std::vector<double>& sorted, double share);

struct WeightedValue {
  double value, weight;
};
/// Returns the least value such that the values up to it have `share` (0 to 1) of all weights; 0 if there are none.
double weighted_quantile(std::vector<WeightedValue>, double share);

}  // namespace trainyard
