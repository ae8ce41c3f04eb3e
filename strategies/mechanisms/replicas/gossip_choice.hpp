#pragma once
#include "models/reading/document.hpp"
#include "strategies/plan/gossip_graph.hpp"

namespace trainyard {

/// Reads `gossip: ring | torus | pairs` (`{topology, seed}`, `{edges: [[0, 1], …]}`) of plan.data_parallel. Throws
/// UserError with the place for a graph that leaves ranks out.
Gossip read_gossip(const Node&, int ranks);

}  // namespace trainyard
