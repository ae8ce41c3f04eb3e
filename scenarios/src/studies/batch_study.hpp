#pragma once
#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/reading/catalog.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// The published validation error of one network by global batch, and a curve fitted to it: e0 up to a batch B0, beyond
/// it e0 + a ((B / B0)^q − 1). The curve is a fit to these points, not a model of training.
struct BatchErrorCurve {
  std::string network, source;
  std::vector<std::pair<double, double>> points;  ///< samples, percent
  double flat = 0;                                ///< e0, percent
  double flat_up_to = 0;                          ///< B0, samples
  double scale = 0, power = 0;                    ///< a (percent), q

  /// Returns the error at a batch, percent. No value: the batch is outside the fitted points, where the fit is unknown.
  std::optional<double> error_percent(double batch) const;
  std::pair<double, double> range() const;  ///< the smallest and the largest batch of the points
  double worst() const;                     ///< largest distance of a point from the curve, percentage points
};

/// Fits the curve of a network by least squares. No value: the catalog has no published errors of it.
std::optional<BatchErrorCurve> batch_error_curve(const Catalog&, const std::string& network);

/// The cost of one global batch on the scenario's cluster.
struct BatchPoint {
  double batch = 0;
  double step_time = 0;           ///< s
  double steps = 0;               ///< steps to the target, computed from the noise scale
  std::optional<double> learned;  ///< steps that the learner needed; no value: it has no target, or did not reach it
  double diverged_at = -1;        ///< step at which the learner diverged; −1: it did not
  std::string error;              ///< why this batch is impossible; empty: it is possible

  double time() const { return steps * step_time; }
  double learned_time() const { return *learned * step_time; }
};

/// The time to a target by global batch. The gradient noise scale, which the scenario states or its learner measures,
/// gives the number of steps. The learner's own number of steps is shown for comparison.
struct BatchStudy {
  NoiseScaleSteps model;
  bool measured = false;  ///< the learner measured the noise scale
  std::vector<BatchPoint> points;
  std::optional<BatchErrorCurve> published;  ///< published errors of the scenario's network, if there are any

  const BatchPoint* fastest() const;          ///< fastest point by the steps from the noise scale
  const BatchPoint* fastest_learned() const;  ///< fastest point by the learner's steps; null: no point has any
};

/// Studies batches of 2^-4 to 2^6 times the scenario's. Each rank's micro-batch changes by the same factor. Throws
/// UserError if the scenario has no section `learn`, or if it has no target or does not reach it.
BatchStudy batch_study(const Scenario&, const std::function<void(std::size_t, std::size_t)>& progress = {});

nlohmann::ordered_json batch_study_json(const Scenario&, const BatchStudy&);

}  // namespace trainyard
