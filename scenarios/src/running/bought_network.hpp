#pragma once
#include <cstdint>
#include <string>

#include "models/energy/prices.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Switches and cables of a cluster's network.
struct BoughtNetwork {
  std::int64_t switches = 0, cables = 0;
  std::string unknown = {};  ///< why their number is not known; empty: it is
};

/// Counts the cables of a cluster's fabrics, those between them, and the switches with the ports of those of the
/// purchase. A fabric that owned nodes have already (Purchase::owned_fabrics) does not count.
BoughtNetwork bought_network(const ClusterSpec&, const Purchase&);
/// Makes the network of an ownership that of the cluster's fabric. If the parts of the fabric are not known, the purchase
/// has no switches and cables, and a part without a price says so.
void set_fabric_network(const ClusterSpec&, const Purchase&, Ownership&);

}  // namespace trainyard
