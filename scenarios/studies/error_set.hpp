#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace trainyard {

/// What the simulator gives beside what was measured.
struct MeasuredPoint {
  std::string id;
  double predicted = 0, measured = 0;  ///< in one unit
  double error() const { return predicted / measured - 1; }
};

/// Relative errors of many points; a share, not per cent.
struct ErrorSet {
  std::string name;
  std::vector<MeasuredPoint> points;
  double mean_abs = 0, median_abs = 0, p90_abs = 0, worst_abs = 0, signed_mean = 0;
  double rank_correlation = 0;  ///< Spearman's, ties by their order
};

/// Throws InternalError without points, or where a measured one is not above 0.
ErrorSet error_set(std::string name, std::vector<MeasuredPoint>);
/// As `validate --json` writes a set; with its points on request.
nlohmann::json to_json(const ErrorSet&, bool points);

/// Of a list that need not be sorted; `share` 0.5: the median; linear between neighbours. Throws InternalError if it
/// is empty.
double quantile(std::vector<double>, double share);

}  // namespace trainyard
