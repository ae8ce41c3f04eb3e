#pragma once
#include "models/hardware/node.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/analysis/rings.hpp"

namespace trainyard {

/// The point-to-point NVLinks between the GPUs of a node.
LinkGraph nvlink_graph(const NodeType&);

/// True if each pair of the node's GPUs has point-to-point NVLinks of its own.
bool has_full_mesh(const NodeType&);

/// Returns rings through all GPUs of a node that share no link, for the algorithm multi-ring: heaviest first. Throws
/// UserError if the node has no point-to-point links, or if they form no ring.
std::vector<WeightedRing> node_rings(const NodeType&);

}  // namespace trainyard
