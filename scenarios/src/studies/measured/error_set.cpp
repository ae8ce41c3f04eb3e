#include "scenarios/src/studies/measured/error_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "models/fitted/fitting.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "sim/error.hpp"
#include "sim/index.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

std::vector<double> ranks_of(const std::vector<MeasuredPoint>& points, double MeasuredPoint::*value) {
  std::vector<std::size_t> order = consecutive_numbers(std::size_t{0}, points.size());
  sort_stably(order, [&](std::size_t a, std::size_t b) { return points[a].*value < points[b].*value; });
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
  std::ranges::sort(values);
  return sorted_quantile(values, share);
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
  set.of_shares = !points.empty() && points.front().share;
  set.name = std::move(name);
  set.n = points.size();
  set.points = std::move(points);
  return set;
}

constexpr std::array<ErrorFigure, 6> kErrorFigures{
    {{"mean", "mean_abs_error", &ErrorSet::mean_abs, &ErrorLimits::mean},
     {"median", "median_abs_error", &ErrorSet::median_abs, &ErrorLimits::median},
     {"p90", "p90_abs_error", &ErrorSet::p90_abs, &ErrorLimits::p90},
     {"worst", "worst_abs_error", &ErrorSet::worst_abs, &ErrorLimits::worst},
     {"signed mean", "signed_mean_error", &ErrorSet::signed_mean, nullptr},
     {"rank", "rank_correlation", &ErrorSet::rank_correlation, &ErrorLimits::rank}}};

bool ErrorFigure::holds(const ErrorSet& errors, const ErrorLimits& limits) const {
  if (!limit || limits.*limit == 0) return true;
  return limit == &ErrorLimits::rank ? errors.*value >= limits.*limit : errors.*value <= limits.*limit;
}

bool holds(const ErrorLimits& limits, const ErrorSet& errors) {
  return std::ranges::all_of(kErrorFigures, [&](const ErrorFigure& figure) { return figure.holds(errors, limits); });
}

std::string words_of(const ErrorLimits& limits, const char* unit) {
  std::string text;
  for (const ErrorFigure& figure : kErrorFigures) {
    const double limit = figure.limit ? limits.*figure.limit : 0;
    if (limit == 0) continue;
    text += fmt::format("{}{} ", text.empty() ? "" : ", ", figure.name);
    text += figure.limit == &ErrorLimits::rank ? fmt::format("{}", limit) : fmt::format("{:.3g} {}", limit * 100, unit);
  }
  return text;
}

JudgedSet judge_set(ErrorSet errors, const ErrorLimits& limits) {
  const bool pass = limits.aim || holds(limits, errors);
  return {std::move(errors), limits, pass};
}

namespace {

JsonFields<ErrorSet> error_set_fields() {
  using E = ErrorSet;
  using P = MeasuredPoint;
  return JsonFields<E>()
      .value("name", "", &E::name, "name of the set")
      .value(
          "n", "", [](const E& e) { return std::uint64_t{e.n}; }, "number of points")
      .value(
          "error_kind", "", [](const E& e) { return std::string(e.of_shares ? "points" : "relative"); },
          "relative: predicted over measured, minus one; points: their difference")
      .value("mean_abs_error", "share", &E::mean_abs, "mean of the absolute errors")
      .value("median_abs_error", "share", &E::median_abs, "median of the absolute errors")
      .value("p90_abs_error", "share", &E::p90_abs, "90th percentile of the absolute errors")
      .value("worst_abs_error", "share", &E::worst_abs, "the largest absolute error")
      .value("signed_mean_error", "share", &E::signed_mean, "mean of the signed errors")
      .value("rank_correlation", "", &E::rank_correlation,
             "Spearman's correlation: 1 if the order of the points is right")
      .list("points", &E::points,
            JsonFields<P>()
                .value("id", "", &P::id, "id of the measurement")
                .value("predicted", "", &P::predicted, "predicted value, in the unit of the measurement")
                .value("measured", "", &P::measured, "measured value"),
            "every point")
      .when(&E::points, "with --points");
}

std::map<std::string, double> limits_by_key(const ErrorLimits& limits) {
  std::map<std::string, double> by_key;
  for (const ErrorFigure& figure : kErrorFigures)
    if (figure.limit && limits.*figure.limit != 0) by_key[figure.key] = limits.*figure.limit;
  return by_key;
}

JsonFields<JudgedSet> judged_set_fields() {
  using J = JudgedSet;
  return JsonFields<J>()
      .inlined(&J::errors, error_set_fields())
      .value(
          "crossover_batch", "samples", [](const J& j) { return *j.crossover_batch; },
          "batch from which two nodes are faster than one; null: none")
      .when(&J::crossover_batch, "validate horovod")
      .value(
          "limits", "share", [](const J& j) { return limits_by_key(j.limits); },
          "limits of the errors, by the keys of the errors")
      .when(&J::says_limits, "validate collectives, horovod")
      .value(
          "pass", "", [](const J& j) { return j.pass && (!j.limits.aim || holds(j.limits, j.errors)); },
          "the errors are within their limits, or reach their aim; a missed aim leaves the exit code 0")
      .when(&J::judges, "");
}

JsonFields<std::vector<JudgedSet>> validate_fields() {
  return JsonFields<std::vector<JudgedSet>>().list("sets", std::identity{}, judged_set_fields(),
                                                   "the sets of measurements");
}

const RegisterJsonReference error_set_json{"validate", "errors against measurements, by set", validate_fields};

template <class T>
nlohmann::json json_of(const JsonFields<T>& fields, const T& value) {
  nlohmann::ordered_json j = nlohmann::ordered_json::object();
  fields.write(value, j);
  return j;
}

}  // namespace

nlohmann::json to_json(ErrorSet set, bool points) {
  if (!points) set.points.clear();
  return json_of(error_set_fields(), set);
}

nlohmann::json to_json(JudgedSet set, bool points) {
  if (!points || !set.draws) set.errors.points.clear();
  return json_of(judged_set_fields(), set);
}

}  // namespace trainyard
