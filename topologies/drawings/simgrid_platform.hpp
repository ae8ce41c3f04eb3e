#pragma once
#include <string>

#include "topologies/cluster.hpp"

namespace trainyard {

/// A route for every ordered pair is written out, which grows with the square of the GPUs.
constexpr int kMostSimgridGpus = 64;

/// The cluster as a platform file of SimGrid (version 4.1): a host is a GPU, a link is one direction of ours with its
/// rate and latency, or a medium that wires share (a hub, a half-duplex wire, host memory), and a route is the one a
/// message takes here; a link that a message takes w times its rate from is in it w times. `network_step` is what the
/// software adds to the latency between nodes. Where buffers on the way pass a message on, its time is that of one longer
/// than a chunk. Throws UserError for more than `kMostSimgridGpus` GPUs, and for pairs that cannot reach each other.
std::string simgrid_platform(const ClusterSpec&, Seconds network_step);

}  // namespace trainyard
