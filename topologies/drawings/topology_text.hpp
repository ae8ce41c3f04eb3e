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
/// The shortest path over wires of a class, whatever drivers would choose.
/// Throws UserError where no links of that class lead there, or both are one device.
DevicePath device_path(DeviceGraph&, DeviceId from, DeviceId to, PathClass);

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

/// The fabric's own rows, then its routing and what is taken out. Empty for a node without a fabric.
std::vector<FabricRow> fabric_rows(const DeviceGraph&, const ClusterSpec&);
/// The rows, a line each.
std::string fabric_lines(const DeviceGraph&, const ClusterSpec&);

/// The graph in Graphviz's language: nodes as clusters, a line a cable, labelled with its rate ("half duplex", "down").
/// With more than 400 devices, the first node of each type in full and the fabric by level.
std::string topology_dot(const DeviceGraph&, const ClusterSpec&, const std::string& title);
/// What a box of that kind of device is filled with, in every drawing.
const char* fill_of(DeviceKind);

/// A latency for people, down to nanoseconds.
std::string latency_text(Picoseconds);

}  // namespace trainyard
