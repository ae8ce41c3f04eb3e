#pragma once
#include <memory>
#include <vector>

#include "topologies/device_graph.hpp"

namespace trainyard {

/// The fabric of one part of a cluster, which cables join with that of the first nodes.
struct JoinedFabric {
  std::vector<DeviceId> ends;  ///< its HCAs
  DeviceId top = -1;           ///< the switch where its cables to other fabrics end
  LinkId cables = -1;  ///< the wire that stands for them, from `top` on; −1: it is the fabric of the first nodes
  std::unique_ptr<FabricRouter> router;  ///< finds paths between its ends, and between them and `top`
};

/// Finds paths within each fabric as its own router does. A path to another fabric leads to the top of its own one, over the
/// cables of both to that of the other, and from there to the end.
std::unique_ptr<FabricRouter> island_router(const DeviceGraph&, std::vector<JoinedFabric>);

/// Finds the shortest paths between the ends of a fabric and its top. It leaves all other paths to the graph.
std::unique_ptr<FabricRouter> shortest_paths_router(DeviceGraph&, const JoinedFabric&);

}  // namespace trainyard
