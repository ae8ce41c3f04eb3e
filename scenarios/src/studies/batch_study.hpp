#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/batch_error.hpp"

namespace trainyard {

/// What one global batch costs on the scenario's cluster.
struct BatchPoint {
  double batch = 0;
  double step_time = 0;           ///< s
  double steps = 0;               ///< to the target, by the noise scale
  std::optional<double> learned;  ///< steps that the learner needed; none: it has no target, or did not reach it
  std::string error;              ///< why it is impossible, instead of all else

  double time() const { return steps * step_time; }
  double learned_time() const { return *learned * step_time; }
};

/// The time to a target against the global batch: steps by the gradient noise scale, given or measured by the scenario's
/// learner, and the learner's own beside them.
struct BatchStudy {
  NoiseScaleSteps model;
  bool measured = false;  ///< by the learner
  std::vector<BatchPoint> points;
  std::optional<BatchErrorCurve> published;  ///< of the scenario's network

  const BatchPoint* fastest() const;          ///< by the formula
  const BatchPoint* fastest_learned() const;  ///< null: none
};

/// At batches of 2^-4 to 2^6 of the scenario's, each rank's micro-batch so much smaller or larger. Throws UserError for a
/// scenario whose section `learn` is missing, or has no target, or does not reach it.
BatchStudy batch_study(const Scenario&, const std::function<void(std::size_t, std::size_t)>& progress = {});

nlohmann::ordered_json batch_study_json(const Scenario&, const BatchStudy&);

}  // namespace trainyard
