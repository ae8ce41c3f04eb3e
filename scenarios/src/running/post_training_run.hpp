#pragma once
#include <functional>
#include <string>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Computes a step of the loop. `training`: the answer to one optimizer step. `simulate_step`: simulates a step of a
/// scenario; it is called for the forward passes over all samples and for the models of values and rewards. Throws
/// UserError with the place.
PostTrainingResult post_training_result(const Scenario&, const Result& training,
                                        const std::function<Result(const Scenario&)>& simulate_step);

/// Adds the training half of a step: training, log-probabilities, and the models of rewards and values, with the memory
/// of their phases. The arguments are those of `post_training_result`.
void add_training_half(const Scenario&, const Result& training, PostTrainingResult&,
                       const std::function<Result(const Scenario&)>& simulate_step);

/// Returns which model of a loop is too large for the GPUs that train, for a result that does not fit.
std::string too_large_words(const Result&);

/// Returns the scenario of the forward passes that compute log-probabilities: the training half in mode inference, over
/// all samples of a step. It leaves out ZeRO: the ranks that share a model keep its parameters and gather none.
/// `other`: model that computes values or rewards instead of the policy; null: the policy.
Scenario log_probability_scenario(const Scenario&, const LoopModel* other = nullptr);

/// Returns the scenario of an optimizer step of the critic: the training half with its model. With nodes of its own,
/// the critic has the layout of the policy and as many replicas as fit on them. Throws UserError with the place.
Scenario critic_scenario(const Scenario&, bool on_own_nodes);

}  // namespace trainyard
