#pragma once
#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/reading/read_post_training.hpp"

namespace trainyard {

/// Simulates all engines of a step. Fills what the result says of generation and of the engines' memory. Prompts are
/// dealt to the engines in order, and the answers to a prompt stay together if the numbers divide.
void generate_answers(const PostTrainingChoice&, const NetworkEntry& model, PostTrainingResult&);

/// Fills the step from its parts. Colocated, or apart and synchronous, the parts follow each other. One step off, the
/// longer of generation and of training with log-probabilities and loop counts; weights follow both.
void close_loop(const PostTrainingChoice&, PostTrainingResult&);

}  // namespace trainyard
