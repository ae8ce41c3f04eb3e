#pragma once
#include <string>

#include "topologies/device_graph.hpp"

namespace trainyard {

/// The whole graph in Graphviz's language: nodes as clusters, a line a cable, labelled with its rate.
std::string topology_dot(const DeviceGraph&, const std::string& title);

/// One node in full (sockets, PCIe switches, GPUs and HCAs in rows, NVLinks as arcs below) and beneath it the fabric
/// by level. Stands alone; equal graphs give equal bytes.
std::string topology_svg(const DeviceGraph&, const std::string& title, int node = 0);

}  // namespace trainyard
