#pragma once
#include <functional>
#include <string>

#include "topologies/cluster.hpp"

namespace trainyard {

/// More devices than this and a graph is drawn by level.
constexpr std::size_t kMostDotDevices = 400;

/// By which drawings tell kinds of devices apart: "#cfe8cf".
const char* device_colour(DeviceKind);

/// The graph in Graphviz's language: nodes as clusters, a line a cable, labelled with its rate ("half duplex", "down").
/// With more than `kMostDotDevices` devices, the first node of each type in full and the fabric by level.
std::string topology_dot(const DeviceGraph&, const ClusterSpec&, const std::string& title);

/// The share of the time that a link is busy; negative: not known.
using LinkHeat = std::function<double(LinkId)>;

/// One node in full (sockets, PCIe switches, GPUs, HCAs and drives in rows, NVLinks as arcs below) and beneath it the
/// fabric by level, or in a few words. Stands alone; equal graphs give equal bytes. With `heat`, cables carry the attributes
/// data-link (a name) and data-busy (of the busier direction).
std::string topology_svg(const DeviceGraph&, const ClusterSpec&, const std::string& title, int node = 0,
                         const LinkHeat& heat = {});

}  // namespace trainyard
