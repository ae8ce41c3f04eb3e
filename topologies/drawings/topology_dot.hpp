#pragma once
#include <string>

#include "topologies/cluster.hpp"

namespace trainyard {

/// The graph in Graphviz's language: nodes as clusters, a line a cable, labelled with its rate ("half duplex", "down").
/// With more than 400 devices, the first node of each type in full and the fabric by level.
std::string topology_dot(const DeviceGraph&, const ClusterSpec&, const std::string& title);

/// What a box of that kind of device is filled with, in every drawing.
const char* fill_of(DeviceKind);

}  // namespace trainyard
