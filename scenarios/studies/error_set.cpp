#include "scenarios/studies/error_set.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/error.hpp"

namespace trainyard {
namespace {

std::vector<double> ranks_of(const std::vector<MeasuredPoint>& points, double MeasuredPoint::*value) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return points[a].*value < points[b].*value; });
  std::vector<double> rank(points.size());
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<double>(i);
  return rank;
}

double spearman(const std::vector<MeasuredPoint>& points) {
  const double n = static_cast<double>(points.size());
  if (n < 2) return 1;
  const std::vector<double> a = ranks_of(points, &MeasuredPoint::predicted),
                            b = ranks_of(points, &MeasuredPoint::measured);
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return 1 - 6 * squares / (n * (n * n - 1));
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) throw InternalError("a quantile of nothing");
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - static_cast<double>(below));
}

ErrorSet error_set(std::string name, std::vector<MeasuredPoint> points) {
  ErrorSet set;
  std::vector<double> errors;
  for (const MeasuredPoint& p : points) {
    if (!(p.measured > 0)) throw InternalError("a measured value that is not above 0: " + p.id);
    errors.push_back(std::abs(p.error()));
    set.mean_abs += errors.back() / static_cast<double>(points.size());
    set.signed_mean += p.error() / static_cast<double>(points.size());
  }
  set.median_abs = quantile(errors, 0.5);
  set.p90_abs = quantile(errors, 0.9);
  set.worst_abs = quantile(errors, 1);
  set.rank_correlation = spearman(points);
  set.name = std::move(name);
  set.points = std::move(points);
  return set;
}

nlohmann::json to_json(const ErrorSet& set, bool points) {
  nlohmann::json j = {{"name", set.name},
                      {"n", set.points.size()},
                      {"error_kind", "relative"},
                      {"mean_abs_error", set.mean_abs},
                      {"median_abs_error", set.median_abs},
                      {"p90_abs_error", set.p90_abs},
                      {"worst_abs_error", set.worst_abs},
                      {"signed_mean_error", set.signed_mean},
                      {"rank_correlation", set.rank_correlation}};
  if (!points) return j;
  j["points"] = nlohmann::json::array();
  for (const MeasuredPoint& p : set.points)
    j["points"].push_back({{"id", p.id}, {"predicted", p.predicted}, {"measured", p.measured}});
  return j;
}

}  // namespace trainyard
