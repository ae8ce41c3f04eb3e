#pragma once
#include "sim/transports/packet_network.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// Adapters as hosts, switches as routers: what of a cluster carries TCP, to be simulated packet by packet. Throws
/// UserError where packets would not be those of the machine: a single node, chips with links of their own, adapters of
/// RDMA, a hub, half-duplex cables, or a fabric with more than one path between two adapters.
PacketNetwork tcp_network(const ClusterMachine&, Bytes port_buffer = {});

}  // namespace trainyard
