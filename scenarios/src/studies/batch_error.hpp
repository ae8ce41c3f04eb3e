#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/reading/catalog.hpp"

namespace trainyard {

/// The published validation error of one network by global batch, and a curve fitted to it: e0 up to a batch B0, beyond
/// it e0 + a ((B / B0)^q − 1). The curve is a fit to these points, not a model of training.
struct BatchErrorCurve {
  std::string network, source;
  std::vector<std::pair<double, double>> points;  ///< samples, percent
  double flat = 0;                                ///< e0, percent
  double flat_up_to = 0;                          ///< B0, samples
  double scale = 0, power = 0;                    ///< a (percent), q

  /// Error at a batch, percent. No value: the batch is outside the fitted points, about which the fit says nothing.
  std::optional<double> error_percent(double batch) const;
  std::pair<double, double> range() const;  ///< the smallest and the largest batch of the points
  double worst() const;                     ///< largest distance of a point from the curve, percentage points
};

/// Fits the curve of a network by least squares. No value: the catalog has no published errors of it.
std::optional<BatchErrorCurve> batch_error_curve(const Catalog&, const std::string& network);

}  // namespace trainyard
