#pragma once
#include <string>

#include "models/gpu.hpp"
#include "models/node_wiring.hpp"

namespace trainyard {

/// One server: how many devices of which kind, and by what they are joined. `topologies/` makes the graph of it.
struct NodeType {
  std::string name;
  int gpus = 0;
  Gpu gpu;
  std::string interconnect;    ///< name of the builder in topologies: "nvswitch" | "nvlink-mesh" | "pcie"
  Picoseconds nvlink_latency;  ///< from GPU to GPU, switch included; unused with "pcie"
  int hcas = 0;                ///< 0: the node has no network
  BytesPerSecond hca_rate;     ///< per direction
  Picoseconds hca_latency;     ///< host to wire, each side
  Picoseconds pcie_latency;    ///< one PCIe hop (endpoint ↔ switch or root port)
  BytesPerSecond pcie_rate;    ///< 16 lanes, per direction; default: the GPU's
  // Where the defaults are left, each GPU and HCA of one number share a PCIe switch with an uplink of its own.
  BytesPerSecond gpu_pcie_rate;           ///< of a GPU's own 16 lanes where they are slower than the node's; else 0
  int sockets = 1;                        ///< CPUs; all pairs are joined
  BytesPerSecond socket_rate;             ///< between two sockets, per direction; unused by one
  Picoseconds socket_latency;             ///< one hop between two sockets
  int lanes_per_socket = 0;               ///< PCIe lanes of a socket for devices and switches; 0: no limit
  int device_lanes = 0;                   ///< each device has as many; 0: 16, or what bifurcation leaves
  std::vector<PcieSwitch> pcie_switches;  ///< devices behind none hang at root ports
  BytesPerSecond nvlink_rate;             ///< one NVLink of the mesh, per direction
  std::vector<NvlinkBundle> nvlink_mesh;  ///< point-to-point links of "nvlink-mesh"
  Sources sources;                        ///< the GPU's too
};

/// Reads an entry: `gpu: {count, type}` (type a name or a map; any other key changes a figure of the type),
/// `interconnect`, the links inside (`read_links`), `hca: {count, rate, latency}` (optional). Throws UserError with the
/// place.
NodeType read_node(const Node& entry, const Catalog&);

}  // namespace trainyard
