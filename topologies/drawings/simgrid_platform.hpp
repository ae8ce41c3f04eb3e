#pragma once
#include <string>

#include "topologies/cluster.hpp"

namespace trainyard {

/// Limit, because a route for every ordered pair is written: the file grows with the square of the number of GPUs.
constexpr int kMostSimgridGpus = 64;

/// The cluster as a platform file of SimGrid (version 4.1). A host is a GPU. A link is one direction of ours with its
/// rate and latency, or a medium that wires share (a hub, a half-duplex wire, host memory). A route is the path of a
/// message here; a link from which a message takes w times its rate is listed w times. `network_step` is the latency
/// that the software adds between nodes. If buffers on the path forward a message, its time is that of a message longer
/// than a chunk. Throws UserError for more than `kMostSimgridGpus` GPUs, and for pairs that cannot reach each other.
std::string simgrid_platform(const ClusterSpec&, Seconds network_step);

}  // namespace trainyard
