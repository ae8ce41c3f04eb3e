#pragma once
#include <algorithm>

#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/post_training/engine_costs.hpp"
#include "scenarios/src/reading/read_post_training.hpp"

namespace trainyard {

/// Simulates all engines of a step. Fills the fields of the result about generation and the engines' memory. Engines
/// get equal shares of the answers, in order. The answers to one prompt stay on one engine if the numbers divide. With
/// more started prompts than a step trains on, generation ends when enough prompts have all their answers.
void generate_answers(const PostTrainingChoice&, const EngineCosts&, PostTrainingResult&);
/// Does the same with the prices of engines that generate with the model.
inline void generate_answers(const PostTrainingChoice& choice, const NetworkEntry& model, PostTrainingResult& r) {
  generate_answers(choice, generation_costs(choice, model), r);
}

/// Returns the least time in which an engine generates its share of the answers of a step: every token comes at the rate of
/// the best batch that fits, at the mean context. Layers with a sliding window count only the prompt as context.
Seconds least_generation(const PostTrainingChoice&, const NetworkEntry& model, const EngineCosts&);

/// Fills the step from its parts. The parts follow each other, unless training is one step off or asynchronous. One
/// step off, generation runs beside training, log-probabilities and loop; the longer of these halves counts, and the
/// transfer of weights follows. An asynchronous loop is simulated (`run_asynchronous`).
void close_loop(const PostTrainingChoice&, const NetworkEntry& model, PostTrainingResult&);

/// Returns a difference of times as a part of a step. Below a nanosecond it is the rounding of sums, and 0.
inline Seconds without_residue(Seconds difference) {
  constexpr double rounding = 1e-9;
  return difference.value < rounding ? Seconds{} : difference;
}

/// Returns the mean time of a step in which an engine of an asynchronous loop waits for answers that it may start. It
/// also takes new weights, and waits for calls of its answers.
inline Seconds start_wait(const PostTrainingResult& r) {
  return std::max(Seconds{}, r.idle_engines * r.step_time - r.weights - r.parts.calls);
}

/// Returns the step of the loop with fewer engines, which generate the same answers. `r`: the loop with all of them.
Seconds step_with_engines(const PostTrainingChoice&, const NetworkEntry& model, const PostTrainingResult& r,
                          int engines);

/// Simulates engines that answer prompts, without a loop.
GenerationResult generation_result(const PostTrainingChoice&, const NetworkEntry& model);

/// Fills the step of an algorithm without rollouts: log-probabilities and training, one after the other.
void close_without_rollouts(const PostTrainingChoice&, PostTrainingResult&);

}  // namespace trainyard
