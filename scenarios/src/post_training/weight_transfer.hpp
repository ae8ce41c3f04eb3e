#pragma once
#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/reading/read_post_training.hpp"

namespace trainyard {

/// Simulates what the links of the machine take at least for the transfer of `sent` bytes of new weights to the engines,
/// s. Tensors pass three steps, one behind the other, so that the slowest one counts: the nodes that hold parts of the
/// policy gather them; one of these nodes sends them through the nodes that only generate, each GPU its share over the
/// adapter that it uses; and the GPUs of a node gather the shares. Each is a collective of the shipped algorithms on the
/// links of the cluster, which its transfers share.
Seconds simulated_transfer(const PostTrainingChoice&, const PostTrainingResult&);

/// The transfer of new weights through a store that nodes share, s.
struct StoreTimes {
  Seconds write, read;
};

/// Simulates it message by message: the GPUs that hold one copy of the policy write their parts, and then each node that
/// generates reads the weights of its engines once, equal shares by its GPUs. All share the rates of the store. Throws
/// UserError at the place of the store if the weights do not fit into it.
StoreTimes simulated_store_transfer(const PostTrainingChoice&, const PostTrainingResult&);

/// Returns the time in which each GPU copies so many bytes to the memory of its host and back.
Seconds host_copies(const NodeType&, Bytes);

}  // namespace trainyard
