#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Reads `switches: [NAME, …]` and `wires: [{from, to, kind, rate | lanes, latency, duplex}, …]` of a "graph" node.
/// Throws UserError with the place for a wire whose end is no device, or for which no rate or latency is stated.
void read_graph(NodeType&, Fields& node);

}  // namespace trainyard
