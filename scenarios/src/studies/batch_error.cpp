#include "scenarios/src/studies/batch_error.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard {
namespace {

/// Returns the scale that fits best with this power, and the remaining sum of squares.
std::pair<double, double> fitted_scale(const BatchErrorCurve& curve, double power) {
  double products = 0, squares = 0, left = 0;
  const auto beyond = [&](const auto& visit) {
    for (const auto& [batch, error] : curve.points)
      if (batch > curve.flat_up_to) visit(std::pow(batch / curve.flat_up_to, power) - 1, error - curve.flat);
  };
  beyond([&](double x, double y) {
    products += x * y;
    squares += x * x;
  });
  const double scale = std::max(0.0, products / squares);
  beyond([&](double x, double y) { left += (y - scale * x) * (y - scale * x); });
  return {scale, left};
}

void fit(BatchErrorCurve& curve) {
  double count = 0;
  for (const auto& [batch, error] : curve.points)
    if (batch <= curve.flat_up_to) {
      curve.flat += error;
      ++count;
    }
  curve.flat /= count;
  // As a function of the power, the sum of squares has a single minimum.
  double least = 0.01, most = 8;
  constexpr int kHalvings = 100;
  for (int i = 0; i < kHalvings; ++i) {
    const double third = (most - least) / 3, a = least + third, b = most - third;
    (fitted_scale(curve, a).second < fitted_scale(curve, b).second ? most : least) =
        fitted_scale(curve, a).second < fitted_scale(curve, b).second ? b : a;
  }
  curve.power = (least + most) / 2;
  curve.scale = fitted_scale(curve, curve.power).first;
}

}  // namespace

std::pair<double, double> BatchErrorCurve::range() const {
  const auto [least, most] = std::minmax_element(points.begin(), points.end());
  return {least->first, most->first};
}

std::optional<double> BatchErrorCurve::error_percent(double batch) const {
  if (const auto [least, most] = range(); batch < least || batch > most) return std::nullopt;
  return batch <= flat_up_to ? flat : flat + scale * (std::pow(batch / flat_up_to, power) - 1);
}

double BatchErrorCurve::worst() const {
  double most = 0;
  for (const auto& [batch, error] : points) most = std::max(most, std::abs(*error_percent(batch) - error));
  return most;
}

std::optional<BatchErrorCurve> batch_error_curve(const Catalog& catalog, const std::string& network) {
  for (const std::string& name : catalog.names("batch-error")) {
    const Node entry = catalog.resolve("batch-error", Node::scalar_node(name));
    Fields fields(entry, "batch-error " + name);
    BatchErrorCurve curve;
    curve.network = fields.text("network");
    if (curve.network != network) continue;
    curve.flat_up_to = fields.number("flat_up_to", 1, 1e12);
    for (const Node& point : *fields.list("points")) {
      Fields point_fields(point, "batch-error point");
      const double batch = point_fields.number("batch", 1, 1e12);
      curve.points.emplace_back(batch, point_fields.number("error", 0, 100));
    }
    for (const FigureSource& figure : figure_sources(entry, name)) curve.source = figure.source;
    fit(curve);
    return curve;
  }
  return std::nullopt;
}

}  // namespace trainyard
