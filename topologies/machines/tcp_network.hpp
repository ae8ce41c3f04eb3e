#pragma once
#include "sim/transports/packet_network.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// The part of a cluster that carries TCP, to be simulated packet by packet: adapters are hosts, switches are routers.
/// Throws UserError if packets would differ from the machine's messages: a single node, chips with links of their own,
/// adapters of RDMA, a hub, half-duplex cables, or a fabric with more than one path between two adapters.
PacketNetwork tcp_network(const ClusterMachine&, Bytes port_buffer = {});

}  // namespace trainyard
