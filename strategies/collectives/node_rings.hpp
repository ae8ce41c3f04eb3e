#pragma once
#include "models/hardware/node.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/analysis/rings.hpp"

namespace trainyard {

/// The point-to-point NVLinks between the GPUs of a node.
LinkGraph nvlink_graph(const NodeType&);

/// The rings through all GPUs of a node that share no link, as multi-ring takes them: heaviest first. Throws UserError
/// where it has no such links, or no ring.
std::vector<WeightedRing> node_rings(const NodeType&);

}  // namespace trainyard
