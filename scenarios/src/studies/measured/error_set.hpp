#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

template <class T>
class JsonFields;

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
const JsonFields<ErrorSet>& error_set_fields();
nlohmann::json to_json(ErrorSet, bool points);

/// What a set is held to.
struct Judgement {
  std::optional<std::optional<double>> crossover_batch;  ///< of the study on Horovod; none where no batch is
  std::optional<std::map<std::string, double>> limits;   ///< of the errors, by their keys
  bool pass = true;
};
/// The set, and then its judgement.
nlohmann::ordered_json to_json(const ErrorSet&, bool points, const Judgement&);

/// Of a list that need not be sorted; `share` 0.5: the median; linear between neighbours. Throws InternalError if it
/// is empty.
double quantile(std::vector<double>, double share);

}  // namespace trainyard
