#include "topologies/machines/tcp_network.hpp"

#include <fmt/format.h>

#include "sim/index.hpp"

namespace trainyard {
namespace {

[[noreturn]] void refuse_tcp(const std::string& why) { throw UserError("--transport packets: " + why); }

void require_tcp_of(const ClusterSpec& spec) {
  if (spec.joins_chips()) refuse_tcp("the chips' own links carry no TCP; ns-3 has packets of TCP only");
  if (spec.nodes < 2)
    refuse_tcp(fmt::format(
        "{} is one node: messages go over NVLink, PCIe or memory, which carry no TCP; ns-3 has packets of TCP only",
        spec.node.name));
  for (const NodeType* type : spec.types()) {
    if (type->network.loss.share > 0)
      refuse_tcp("ns-3 loses frames only in full queues (--port-buffer); leave cluster.hca.loss out");
    if (!type->network.tcp)
      refuse_tcp(
          fmt::format("the adapters of {} carry RDMA (InfiniBand or RoCE); ns-3 has packets of TCP only. If they use "
                      "sockets, state hca: {{transport: tcp}} (--set cluster.hca.transport=tcp)",
                      type->name));
  }
}

/// Union-find over nodes, to detect circles: `join` returns false if both nodes were connected already.
class JoinedParts {
 public:
  explicit JoinedParts(std::size_t nodes) : parent_(consecutive_numbers(0, nodes)) {}
  bool join(int a, int b) {
    const int first = root(a), other = root(b);
    parent_[position(first)] = other;
    return first != other;
  }

 private:
  std::vector<int> parent_;
  int root(int node) const {
    while (parent_[position(node)] != node) node = parent_[position(node)];
    return node;
  }
};

}  // namespace

PacketNetwork tcp_network(const ClusterMachine& machine, Bytes port_buffer) {
  require_tcp_of(machine.spec());
  const DeviceGraph& graph = machine.graph();
  PacketNetwork network;
  network.port_buffer = port_buffer;
  std::vector<int> number(graph.devices().size(), -1);
  const std::vector<DeviceId> adapters = graph.devices_of_kind(DeviceKind::hca),
                              switches = graph.devices_of_kind(DeviceKind::network_switch);
  network.hosts = static_cast<int>(adapters.size());
  network.routers = static_cast<int>(switches.size());
  int next = 0;
  for (const std::vector<DeviceId>& kind : {adapters, switches})
    for (const DeviceId id : kind) number[position(id)] = next++;

  network.directions.resize(graph.wires().size());
  JoinedParts parts(position(next));
  for (LinkId wire = 0; wire < static_cast<LinkId>(graph.wires().size()); wire += 2) {
    if (scope_of(graph.kind(wire)) != LinkScope::fabric) continue;
    const Link &link = graph.wires()[position(wire)], &back = graph.wires()[position(wire + 1)];
    const DeviceGraph::End end = graph.ends(wire);
    const int from = number[position(end.from)], to = number[position(end.to)];
    if (from < 0 || to < 0) refuse_tcp(fmt::format("one end of {} is neither an adapter nor a switch", link.name));
    if (graph.medium(wire) >= 0)
      refuse_tcp(fmt::format("{} shares its rate with others (a hub, or half duplex)", link.name));
    if (link.capacity != back.capacity)
      refuse_tcp(fmt::format("{} has different rates in its two directions; ns-3's cables have one rate", link.name));
    if (!parts.join(from, to))
      refuse_tcp(
          fmt::format("this fabric has more than one path between two adapters (over {}) and spreads each message over "
                      "them; a TCP connection takes one. Use fabric: ethernet or nonblocking, or a tree",
                      link.name));
    network.cables.push_back({from, to, link.capacity, end.latency});
    network.directions[position(wire)] = {from, to, end.latency};
    network.directions[position(wire + 1)] = {to, from, end.latency};
  }
  return network;
}

}  // namespace trainyard
