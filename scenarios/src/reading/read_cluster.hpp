#pragma once
#include "models/reading/catalog.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// The `cluster` of a scenario: `nodes` (how many of `node`; or a list of `{count, node, …}` of several types), `node` (a
/// name of the catalog, a file beside the scenario, or a map in place) with what changes it (`gpu`, `gpu_speed`, `hca`,
/// `nvlink`, `pcie`, `cpu`, …), `fabric` (likewise), `taken_out: [SWITCH, "A - B", …]`, `preflight` (see checked_hosts). Throws UserError with the place.
ClusterSpec read_cluster(const Node&, const Catalog&);

/// Checks that a node of this type can be built: its wiring is known, its lanes suffice. Throws UserError at `place`.
void check_node(const NodeType&, const Place& of_type, const Place& of_lanes, const std::string& what);

}  // namespace trainyard
