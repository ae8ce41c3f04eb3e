#pragma once
#include <string>
#include <vector>

#include "topologies/routing.hpp"

namespace trainyard {

/// One link on the path of a message between two devices.
struct PathHop {
  std::string from, to, kind;  ///< names of the devices; kind of the link
  BytesPerSecond rate;
  Picoseconds latency;
  std::string leg;  ///< description of the segment between two buffers, if there are several
};
struct DevicePath {
  std::vector<PathHop> hops;
  std::string limit, limit_kind;  ///< the link that fills up first; the first one, if several do
  BytesPerSecond rate;            ///< rate of a long message on all legs at once
  Picoseconds latency;
  std::string locality;  ///< in `nvidia-smi topo -m`'s words: NV, PIX, PXB, PHB, SYS; NET between nodes; ICI
  std::string means;     ///< "", "through host memory", "RDMA", …
  Bytes chunk;           ///< size of the pieces that buffers on the path forward; 0: there are no buffers
};
DevicePath path_of(const DeviceGraph&, const Path&);

/// Finds a device by name ("node0/gpu3"), by its name inside the first node ("gpu3"), or by rank ("3": the GPU of that
/// number). Throws UserError with the nearest name.
DeviceId find_device(const DeviceGraph&, const std::string& word);

/// Rate of one NVLink of a mesh, to distinguish "NV2" from "NV1"; 0 if links are not counted.
using NvlinkRate = BytesPerSecond;

/// Distance between two devices of a node: "X", "NV2", "NV", "PIX", "PXB", "PHB" or "SYS".
std::string locality(DeviceGraph&, DeviceId, DeviceId, NvlinkRate);
/// One node as a tree: sockets with their memory, switches and devices, each with its link upwards; then all other
/// connections.
std::string node_tree(const DeviceGraph&, int node);
/// `locality` of all GPUs and HCAs of a node, one row each, with the legend.
std::string locality_matrix(DeviceGraph&, int node, NvlinkRate);
/// Names the GPUs of the node that reach each other only through host memory, in one line; "" if all reach each other
/// directly.
std::string staging_text(DeviceGraph&, const ClusterSpec&, int node);

/// Memory and copies of a CPU: "memory 100 GB/s, copies 10.0 GB/s"; "" if they have no limit.
std::string host_text(const DeviceGraph&, DeviceId cpu);

/// The fabric's own rows, then its routing and what has been removed. Empty for a node without a fabric.
std::vector<FabricRow> fabric_rows(const DeviceGraph&, const ClusterSpec&);
/// The rows, one line each.
std::string fabric_lines(const DeviceGraph&, const ClusterSpec&);

/// The graph in Graphviz's language: nodes as clusters, one line for each cable with its rate as label ("half duplex",
/// "down"). With more than 400 devices: the first node of each type in full, and the fabric by level.
std::string topology_dot(const DeviceGraph&, const ClusterSpec&, const std::string& title);
/// Fill colour of the boxes of a kind of device, in every drawing.
const char* fill_of(DeviceKind);

/// A latency as text for people, down to nanoseconds.
std::string latency_text(Picoseconds);

}  // namespace trainyard
