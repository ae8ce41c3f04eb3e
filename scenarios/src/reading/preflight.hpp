#pragma once
#include "topologies/cluster.hpp"

namespace trainyard {

/// Reads `preflight: {ports: [22, 29500], hosts: [{name, gpus, open_ports, reaches, versions: {cuda: 12.2, …}}, …]}` of
/// a cluster: the hosts that the user declares, one for each node in order. Throws UserError, with the place, for
/// anything that would keep a training from starting: a missing host or GPU, a closed port that is needed, a host that
/// cannot be reached, or versions that differ. A host without `reaches` reaches all others.
std::vector<DeclaredHost> checked_hosts(const Node& preflight, const ClusterSpec&);

}  // namespace trainyard
