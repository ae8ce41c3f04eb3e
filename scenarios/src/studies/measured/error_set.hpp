#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/fitted/measured_family.hpp"

namespace trainyard {

/// A predicted and a measured value.
struct MeasuredPoint {
  std::string id;
  double predicted = 0, measured = 0;  ///< both in the same unit
  bool share = false;                  ///< both values are shares, whose error is a difference, not a ratio
  double error() const { return share ? predicted - measured : predicted / measured - 1; }
};

/// Statistics of the errors of many points. Errors are fractions, not per cent.
struct ErrorSet {
  std::string name;
  bool of_shares = false;  ///< true: the errors are differences of shares; false: relative errors
  std::size_t n = 0;
  std::vector<MeasuredPoint> points;
  double mean_abs = 0, median_abs = 0, p90_abs = 0, worst_abs = 0, signed_mean = 0;
  double rank_correlation = 0;  ///< Spearman's correlation; equal values rank in the order of the points
};

/// Computes the statistics. Throws InternalError if there are no points, or if a measured value is not above 0.
ErrorSet error_set(std::string name, std::vector<MeasuredPoint>);
/// Writes a set as `validate --json` does. `points`: writes its points too.
nlohmann::json to_json(ErrorSet, bool points);

/// A figure of an error set: its table column, its key in JSON, and its limit.
struct ErrorFigure {
  const char *name, *key;
  double ErrorSet::*value;
  double ErrorLimits::*limit;  ///< null: the figure has no limit
  bool holds(const ErrorSet&, const ErrorLimits&) const;
};
extern const std::array<ErrorFigure, 6> kErrorFigures;

/// Returns true if the errors are within all limits.
bool holds(const ErrorLimits&, const ErrorSet&);
/// Writes limits in words: "mean 3 %, rank 0.9"; empty if there is no limit.
std::string words_of(const ErrorLimits&, const char* unit = "%");

/// An error set and its limits.
struct JudgedSet {
  ErrorSet errors;
  ErrorLimits limits = {};
  bool pass = true;
  std::size_t runs = 0;                                       ///< number of runs that were to be predicted; 0: all were
  bool part = false;                                          ///< the points are some of those of the set before
  bool judges = true;                                         ///< the JSON says whether it passes
  bool says_limits = false;                                   ///< the JSON has its limits
  bool draws = true;                                          ///< its points are in the JSON and on the HTML page
  std::optional<std::optional<double>> crossover_batch = {};  ///< crossover of the Horovod study; inner no value: none
};
JudgedSet judge_set(ErrorSet, const ErrorLimits&);
nlohmann::json to_json(JudgedSet, bool points);

/// Returns a quantile of an unsorted list, interpolated linearly between neighbours; with `share` 0.5, the median.
/// Throws InternalError if the list is empty.
double quantile(std::vector<double>, double share);

}  // namespace trainyard
