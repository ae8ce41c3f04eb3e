#pragma once
#include <string>
#include <vector>

#include "topologies/routing.hpp"

namespace trainyard {

/// The path of a message between two devices, alone on it.
struct PathHop {
  std::string from, to, kind;  ///< names of the devices; kind of the link
  BytesPerSecond rate;
  Picoseconds latency;
  std::string leg;  ///< what this stretch between two buffers is, where there are several
};
struct DevicePath {
  std::vector<PathHop> hops;
  std::string limit, limit_kind;  ///< the link that is full first; the first of several
  BytesPerSecond rate;            ///< of a long message, all legs at once
  Picoseconds latency;
  std::string locality;  ///< in `nvidia-smi topo -m`'s words: NV, PIX, PXB, PHB, SYS; NET between nodes; ICI
  std::string how;       ///< "", "through host memory", "RDMA", …
  Bytes chunk;           ///< what buffers on the way pass on at a time; 0: there are none
};
DevicePath path_of(const DeviceGraph&, const Path&);
/// By name ("node0/gpu3"), by the name inside the first node ("gpu3"), or by rank ("3": the GPU of that number). Throws
/// UserError with the nearest name.
DeviceId find_device(const DeviceGraph&, const std::string& word);

/// Rate of one NVLink of a mesh, to tell "NV2" from "NV1"; 0 where links are not counted.
using NvlinkRate = BytesPerSecond;

/// How near two devices of a node are: "X", "NV2", "NV", "PIX", "PXB", "PHB" or "SYS".
std::string locality(DeviceGraph&, DeviceId, DeviceId, NvlinkRate);
/// One node as a tree: sockets with their memory, switches and devices, each with its link upwards; then what else joins
/// them.
std::string node_tree(const DeviceGraph&, int node);
/// `locality` of all GPUs and HCAs of a node, a row each, with the legend.
std::string locality_matrix(DeviceGraph&, int node, NvlinkRate);
/// Which GPUs of the node reach each other only by way of host memory, as one line; "" where all reach each other.
std::string staging_text(DeviceGraph&, const ClusterSpec&, int node);

/// Memory and copies of a CPU: "memory 100 GB/s, copies 10.0 GB/s"; "" where they have no limit.
std::string host_text(const DeviceGraph&, DeviceId cpu);

/// A latency for people, down to nanoseconds.
std::string latency_text(Picoseconds);

}  // namespace trainyard
