#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Reads `switches: [NAME, …]` and `wires: [{from, to, kind, rate | lanes, latency, duplex}, …]` of a "graph". Throws
/// UserError with the place for a wire that ends at no device, or whose rate or latency nothing states.
void read_graph(NodeType&, Fields& node);

}  // namespace trainyard
