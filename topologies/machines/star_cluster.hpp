#pragma once
#include "topologies/cluster.hpp"

namespace trainyard {

/// `gpus` devices with one full-duplex link each to a switch that is no limit: the machine of a lecture.
ClusterSpec star_cluster(int gpus, BytesPerSecond link, Picoseconds hop_latency = {});

}  // namespace trainyard
