#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// Of a measured table, one half of the rows is fitted to and the other judged: which, by a hash of the row's shape, so
/// that all rows of one shape are on one side.
bool goes_to_fit(const std::string& shape);

/// Median, mean and 90th percentile of |predicted / measured − 1|.
struct KernelErrors {
  double median = 0, mean = 0, p90 = 0;
};
/// Throws InternalError without any.
KernelErrors kernel_errors(std::vector<double> errors);

/// Value at `share` of sorted values, between the two nearest ranks.
double sorted_quantile(const std::vector<double>& sorted, double share);

}  // namespace trainyard
