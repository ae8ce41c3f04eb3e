#pragma once
#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/reading/read_post_training.hpp"

namespace trainyard {

/// Returns true if the libraries that send the weights narrow them before to the format of the engines.
bool sends_narrow_weights(const PostTrainingChoice&);

/// Returns the time in which the libraries send `sent` bytes of new weights to all engines, s. With one library for the
/// nodes that only generate and another one for GPUs that train, the slower one counts: each bucket goes to all engines
/// before the next one does (slime, update_weight_from_tensor.py). `network`: least time on the links.
Seconds library_transfer(const PostTrainingChoice&, const NetworkEntry& model, Bytes sent, Seconds network = {});

/// Fills the time of the transfer of new weights: by the libraries, which are no faster than the simulated links of the
/// machine, or through a store that nodes share. The links carry collectives of the shipped algorithms, which share
/// them. The store is simulated message by message: the GPUs that hold one copy of the policy write their parts, and then
/// each node that generates reads the weights of its engines once, equal shares by its GPUs. All share the rates of the
/// store. Throws UserError at the place of the store if the weights do not fit into it.
void transfer_weights(const PostTrainingChoice&, const NetworkEntry& model, PostTrainingResult&);

}  // namespace trainyard
