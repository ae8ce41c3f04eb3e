#pragma once
#include "scenarios/src/sizing/size_answer.hpp"

namespace trainyard {

/// Finds the clusters that train a scenario's model on its tokens in time. For each node type it finds the fewest nodes
/// that meet the deadline and lists the numbers evaluated on the way (`find_fewest_nodes`). The scenario's plan gives
/// batch, lengths and `training`, and its `faults` the failures. Of its cluster only the fabric matters. Throws
/// UserError.
SizeAnswer size_clusters(const Node& document, const std::string& name, const SizeOptions&);

}  // namespace trainyard
