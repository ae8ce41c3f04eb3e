#pragma once
#include <functional>
#include <string>

#include "topologies/cluster.hpp"

namespace trainyard {

/// The share of the time that a link is busy; negative: not known.
using LinkHeat = std::function<double(LinkId)>;

/// One node in full (sockets, PCIe switches, GPUs, HCAs and drives in rows, NVLinks as arcs below) and beneath it the
/// fabric by level, or in a few words. As SVG. With `heat`, cables carry the attributes data-link (a name) and data-busy (of
/// the busier direction).
std::string topology_svg(const DeviceGraph&, const ClusterSpec&, const std::string& title, int node = 0,
                         const LinkHeat& heat = {});

}  // namespace trainyard
