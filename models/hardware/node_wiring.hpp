#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Reads the links of a node's entry: `sockets`, `socket_link: {rate, latency}`, `pcie: {latency, rate |
/// generation, lanes_per_socket, device_lanes, switches, duplex, peer_to_peer: none | switch | socket | node}`,
/// `nvlink: {latency, link_rate, mesh}`, or the wires of a "graph". GPUs and HCAs must have been read before. Throws
/// UserError with the place.
void read_links(NodeType&, Fields& node);

/// Reads `switches: [NAME, …]` and `wires: [{from, to, kind, rate | lanes, latency, duplex}, …]` of a "graph" node.
/// Throws UserError with the place for a wire whose end is no device, or for which no rate or latency is stated.
void read_graph(NodeType&, Fields& node);

}  // namespace trainyard
