#pragma once
#include <string>

#include "models/gpu.hpp"

namespace trainyard {

/// One server: how many devices of which kind, and by what they are joined. `topologies/` makes the graph of it.
struct NodeType {
  std::string name;
  int gpus = 0;
  Gpu gpu;
  std::string interconnect;    ///< name of the builder in topologies: "nvswitch" | "pcie"
  Picoseconds nvlink_latency;  ///< one hop GPU → switch → GPU, shared evenly by its two links; unused with "pcie"
  int hcas = 0;                ///< 0: the node has no network
  BytesPerSecond hca_rate;     ///< per direction
  Picoseconds hca_latency;     ///< host to wire, each side
  Picoseconds pcie_latency;    ///< one PCIe hop (endpoint ↔ switch or root port)
  BytesPerSecond pcie_rate;    ///< a lane group, per direction; default: the GPU's
  Sources sources;             ///< the GPU's too
};

/// Reads an entry: `gpu: {count, type}` (type a name or a map; any other key changes a figure of the type),
/// `interconnect`, `pcie: {latency, rate}`, `nvlink: {latency}` (required with nvswitch), `hca: {count, rate, latency}`
/// (optional). Throws UserError with the place.
NodeType read_node(const Node& entry, const Catalog&);

}  // namespace trainyard
