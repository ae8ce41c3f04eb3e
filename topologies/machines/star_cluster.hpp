#pragma once
#include "topologies/cluster.hpp"

namespace trainyard {

/// `gpus` devices with one full-duplex link each to an unlimited switch: the machine of a lecture.
ClusterSpec star_cluster(int gpus, BytesPerSecond link, Picoseconds hop_latency = {});

}  // namespace trainyard
