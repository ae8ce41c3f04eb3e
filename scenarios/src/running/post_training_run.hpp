#pragma once
#include <functional>

#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Computes a step of the loop. `training_step_time`: the simulated time of one optimizer step. `simulate_step`: returns
/// the step time of a scenario; it is called for the forward passes over all samples. Throws UserError with the place.
PostTrainingResult post_training_result(const Scenario&, double training_step_time,
                                        const std::function<double(const Scenario&)>& simulate_step);

/// Returns the scenario of the forward passes that compute log-probabilities: the training half in mode inference, over
/// all samples of a step. It leaves out ZeRO: the ranks that share a model keep its parameters and gather none.
Scenario log_probability_scenario(const Scenario&);

}  // namespace trainyard
