#pragma once
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trainyard {

/// Pattern search (Hooke & Jeeves 1961): a step along each axis that helps is kept and grows, one that does not shrinks.
/// Moves `at`, which `error` reads, to the least error found, and returns that. Deterministic.
double pattern_search(std::span<double> at, const std::function<double()>& error);

/// A constant of a model, which a search moves by a logarithm: it becomes min(`most`, `start` · e^at) · `scale`.
struct SearchedConstant {
  const char* key;
  double* value;
  double start = 1, most = HUGE_VAL, scale = 1;
  double at = 0;
  void move_to(double logarithm) { *value = std::min(most, start * std::exp(at = logarithm)) * scale; }
};
/// Moves all of them by pattern search to the least error found, and returns that.
double search(std::vector<SearchedConstant>&, const std::function<double()>& error);
/// Keys of constants that are not felt: `felt` is false of the error a logarithm of `move` above and below where they are.
std::vector<std::string> unfelt(std::vector<SearchedConstant>, double move, const std::function<double()>& error,
                                const std::function<bool(double)>& felt);

/// Half of a measured table is fitted and the other half judged. A hash of the row's shape decides, so that all rows of
/// one shape are in the same half.
bool goes_to_fit(const std::string& shape);

/// Median, mean and 90th percentile of |predicted / measured − 1|.
struct FitErrors {
  double median = 0, mean = 0, p90 = 0;
};
/// Throws InternalError without any.
FitErrors fit_errors(std::vector<double> errors);

/// Value at `share` of sorted values, between the two nearest ranks. Throws InternalError without any.
double sorted_quantile(const std::vector<double>& sorted, double share);

}  // namespace trainyard
