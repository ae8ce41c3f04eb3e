#pragma once
#include "topologies/cluster.hpp"

namespace trainyard {

/// `preflight: {ports: [22, 29500], hosts: [{name, gpus, open_ports, reaches, versions: {cuda: 12.2, …}}, …]}` of a cluster:
/// what its hosts have, one host a node in order, as the user declares it. Throws UserError at the place of what would
/// keep a training from starting there: a host too few, a GPU missing, a needed port closed, a host out of reach, versions
/// that differ. `reaches` that is left out means all.
std::vector<DeclaredHost> checked_hosts(const Node& preflight, const ClusterSpec&);

}  // namespace trainyard
