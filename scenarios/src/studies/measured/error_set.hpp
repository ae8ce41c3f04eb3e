#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/reading/measured_family.hpp"

namespace trainyard {

/// What the simulator gives beside what was measured.
struct MeasuredPoint {
  std::string id;
  double predicted = 0, measured = 0;  ///< in one unit
  bool share = false;                  ///< both are shares of one: points apart, and not in proportion
  double error() const { return share ? predicted - measured : predicted / measured - 1; }
};

/// Errors of many points; a share, not per cent.
struct ErrorSet {
  std::string name;
  bool of_shares = false;  ///< the errors are differences of shares, else relative
  std::size_t n = 0;
  std::vector<MeasuredPoint> points;
  double mean_abs = 0, median_abs = 0, p90_abs = 0, worst_abs = 0, signed_mean = 0;
  double rank_correlation = 0;  ///< Spearman's, ties by their order
};

/// Throws InternalError without points, or where a measured one is not above 0.
ErrorSet error_set(std::string name, std::vector<MeasuredPoint>);
/// As `validate --json` writes a set, with its points where it has them.
nlohmann::json to_json(ErrorSet, bool points);

/// A figure of an error set, by its column of a table, its key in JSON, and what it is held to.
struct ErrorFigure {
  const char *name, *key;
  double ErrorSet::*value;
  double ErrorLimits::*limit;  ///< null: it is held to none
  bool holds(const ErrorSet&, const ErrorLimits&) const;
};
extern const std::array<ErrorFigure, 6> kErrorFigures;

/// Are they within all limits?
bool holds(const ErrorLimits&, const ErrorSet&);
/// "mean 3 %, rank 0.9"; empty where there is no limit.
std::string words_of(const ErrorLimits&, const char* unit = "%");

/// A set, and what it is held to.
struct JudgedSet {
  ErrorSet errors;
  ErrorLimits limits = {};
  bool pass = true;
  std::size_t runs = 0;                                       ///< that were to be predicted; 0: all were
  bool part = false;                                          ///< of the set before
  bool judges = true;                                         ///< it is in the JSON whether it passes
  bool says_limits = false;                                   ///< in the JSON
  bool draws = true;                                          ///< its points are in the JSON, and on the page
  std::optional<std::optional<double>> crossover_batch = {};  ///< of the study on Horovod; none where no batch is
};
JudgedSet judged(ErrorSet, const ErrorLimits&);
nlohmann::json to_json(JudgedSet, bool points);

/// Of a list that need not be sorted; `share` 0.5: the median; linear between neighbours. Throws InternalError if it
/// is empty.
double quantile(std::vector<double>, double share);

}  // namespace trainyard
