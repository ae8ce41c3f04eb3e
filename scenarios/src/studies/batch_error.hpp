#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/reading/catalog.hpp"

namespace trainyard {

/// Validation error by global batch, as it was published for one network, and a curve fitted to it: flat up to a batch B0,
/// beyond it e0 + a ((B / B0)^q − 1). A fit to these points, no model of training.
struct BatchErrorCurve {
  std::string network, source;
  std::vector<std::pair<double, double>> points;  ///< samples, percent
  double flat = 0;                                ///< e0, percent
  double flat_up_to = 0;                          ///< B0, samples
  double scale = 0, power = 0;                    ///< a (percent), q

  double at(double batch) const;  ///< percent
  double worst() const;           ///< percent points that a point is off
};

/// Of the network, if the catalog has one. The fit is by least squares.
std::optional<BatchErrorCurve> batch_error_curve(const Catalog&, const std::string& network);

}  // namespace trainyard
