#pragma once
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

struct NodeType;

constexpr int kFullWidth = 16;  ///< lanes of the widest PCIe slot, which `pcie.rate` is the rate of

/// Rate per direction of `lanes` PCIe lanes of a generation from 3 to 6, before packet headers.
BytesPerSecond pcie_rate(int generation, int lanes);

/// A PCIe switch in a node: its uplink goes to the root port of a socket, GPUs and HCAs hang below it.
struct PcieSwitch {
  int socket = 0;
  std::vector<int> gpus, hcas;  ///< by their numbers in the node
  int uplink_lanes = kFullWidth;
};

/// NVLinks that join the same two GPUs.
struct NvlinkBundle {
  int a = 0, b = 0;
  int links = 1;
};

/// A wire of a node that is given link by link ("graph").
struct GraphWire {
  std::string a, b;  ///< "gpu0", "cpu1", "hca0", "nvme0", or a switch that the node names
  std::string kind;  ///< "PCIe", "NVLink" or "socket"
  BytesPerSecond rate;
  Picoseconds latency;
  bool half_duplex = false;
  Place place;
};

/// Reads `switches: [NAME, …]` and `wires: [{from, to, kind, rate | lanes, latency, duplex}, …]` of a "graph". Throws
/// UserError with the place for a wire that ends at no device, or whose rate or latency nothing states.
void read_graph(NodeType&, Fields& node);

/// `duplex: full | half`.
bool read_half_duplex(Fields&);

/// Reads what a node's entry says of its links: `sockets`, `socket_link: {rate, latency}`, `pcie: {latency, rate |
/// generation, lanes_per_socket, device_lanes, switches, duplex, peer_to_peer: none | switch | socket | node}`,
/// `nvlink: {latency, link_rate, mesh}`. GPUs and HCAs have been read before. Throws UserError with the place.
void read_links(NodeType&, Fields& node);

/// A latency as picoseconds; bounded, so that sums of them stay far from overflow.
Picoseconds read_latency(Fields&, std::string_view key);

}  // namespace trainyard
