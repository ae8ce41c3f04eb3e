#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Reads what a node's entry says of its links: `sockets`, `socket_link: {rate, latency}`, `pcie: {latency, rate |
/// generation, lanes_per_socket, device_lanes, switches, duplex, peer_to_peer: none | switch | socket | node}`,
/// `nvlink: {latency, link_rate, mesh}`, or the wires of a "graph". GPUs and HCAs have been read before. Throws UserError
/// with the place.
void read_links(NodeType&, Fields& node);

/// Reads `switches: [NAME, …]` and `wires: [{from, to, kind, rate | lanes, latency, duplex}, …]` of a "graph". Throws
/// UserError with the place for a wire that ends at no device, or whose rate or latency nothing states.
void read_graph(NodeType&, Fields& node);

}  // namespace trainyard
