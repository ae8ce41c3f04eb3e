#pragma once
#include <string>
#include <vector>

#include "topologies/cluster.hpp"

namespace trainyard {

/// The fabric's own rows, then its routing and what is taken out. Empty for a node without a fabric.
std::vector<FabricRow> fabric_rows(const DeviceGraph&, const ClusterSpec&);
/// The rows, a line each.
std::string fabric_lines(const DeviceGraph&, const ClusterSpec&);

}  // namespace trainyard
