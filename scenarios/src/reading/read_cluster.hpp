#pragma once
#include "models/reading/catalog.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Reads the `cluster` of a scenario: `nodes` (a count, or a list of `{count, node, …}` for several types of nodes),
/// `node` (a name of the catalog, a file beside the scenario, or a map in place) with its changes (`gpu`, `gpu_speed`,
/// `hca`, `nvlink`, `pcie`, `cpu`, …), `fabric` (a name, file or map), `taken_out: [SWITCH, "A - B", …]` and
/// `preflight` (see checked_hosts). Throws UserError with the place.
ClusterSpec read_cluster(const Node&, const Catalog&);

}  // namespace trainyard
