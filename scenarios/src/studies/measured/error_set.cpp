#include "scenarios/src/studies/measured/error_set.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "models/fitted/held_out.hpp"
#include "scenarios/src/answer/json_reference.hpp"
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
  std::sort(values.begin(), values.end());
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

const JsonFields<ErrorSet>& error_set_fields() {
  using E = ErrorSet;
  using P = MeasuredPoint;
  static const JsonFields<E> fields =
      JsonFields<E>()
          .value("name", "", &E::name, "what is compared")
          .value(
              "n", "", [](const E& e) { return std::uint64_t{e.n}; }, "number of points")
          .value(
              "error_kind", "", [](const E& e) { return std::string(e.of_shares ? "points" : "relative"); },
              "relative: predicted over measured, less one; points: their difference")
          .value("mean_abs_error", "share", &E::mean_abs, "mean of the absolute errors")
          .value("median_abs_error", "share", &E::median_abs, "their median")
          .value("p90_abs_error", "share", &E::p90_abs, "their 90th percentile")
          .value("worst_abs_error", "share", &E::worst_abs, "the largest")
          .value("signed_mean_error", "share", &E::signed_mean, "mean of the signed errors")
          .value("rank_correlation", "", &E::rank_correlation, "Spearman's: whether the order of the points is right")
          .list("points", &E::points,
                JsonFields<P>()
                    .value("id", "", &P::id, "the measurement")
                    .value("predicted", "", &P::predicted, "by the simulator, in the unit of the measurement")
                    .value("measured", "", &P::measured, "the measurement"),
                "every point")
          .when([](const E& e) { return !e.points.empty(); }, "with --points");
  return fields;
}

nlohmann::json to_json(ErrorSet set, bool points) {
  if (!points) set.points.clear();
  nlohmann::ordered_json j = nlohmann::ordered_json::object();
  error_set_fields().write(set, j);
  return j;
}

namespace {

JsonFields<Judgement> judgement_fields() {
  using J = Judgement;
  return JsonFields<J>()
      .value(
          "crossover_batch", "samples", [](const J& j) { return *j.crossover_batch; },
          "batch from which two nodes are faster than one; null: none")
      .when([](const J& j) { return j.crossover_batch.has_value(); }, "validate horovod")
      .value(
          "limits", "share", [](const J& j) { return *j.limits; }, "limits of the errors, by their keys")
      .when([](const J& j) { return j.limits.has_value(); }, "validate collectives, horovod")
      .value("pass", "", &J::pass, "the errors are within their limits");
}

std::vector<FieldRow> validate_rows() {
  std::vector<FieldRow> rows{{"sets", "list", "the sets of measurements", ""}};
  for (FieldRow& row : error_set_fields().rows("sets[].")) rows.push_back(std::move(row));
  for (FieldRow& row : judgement_fields().rows("sets[].")) rows.push_back(std::move(row));
  return rows;
}

const RegisterJsonReference error_set_json{"validate", "errors against measurements, a set each", validate_rows};

}  // namespace

nlohmann::ordered_json to_json(const ErrorSet& set, bool points, const Judgement& judgement) {
  nlohmann::ordered_json j = to_json(set, points);
  judgement_fields().write(judgement, j);
  return j;
}

}  // namespace trainyard
