#pragma once
#include <functional>
#include <string>

#include "topologies/cluster.hpp"

namespace trainyard {

/// The share of the time in which a link is busy; negative: unknown.
using LinkHeat = std::function<double(LinkId)>;

/// Draws one node as SVG (sockets, PCIe switches, GPUs, HCAs and drives in rows, NVLinks as arcs below), and below it
/// the fabric level by level, or in a few words. With `heat`, cables have the attributes data-link (a name) and
/// data-busy (the share of the busier direction).
std::string topology_svg(const DeviceGraph&, const ClusterSpec&, const std::string& title, int node = 0,
                         const LinkHeat& heat = {});

}  // namespace trainyard
