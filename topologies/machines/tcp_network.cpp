#include "topologies/machines/tcp_network.hpp"

#include <fmt/format.h>

#include <numeric>

#include "sim/index.hpp"

namespace trainyard {
namespace {

[[noreturn]] void refuse_tcp(const std::string& why) { throw UserError("--transport packets: " + why); }

void require_tcp_of(const ClusterSpec& spec) {
  if (spec.joins_chips()) refuse_tcp("the chips' own links carry no TCP; ns-3 has packets of TCP only");
  if (spec.nodes < 2)
    refuse_tcp(
        fmt::format("{} is one node: messages go over NVLink, PCIe or memory, which carry no TCP; ns-3 has packets of "
                    "TCP only",
                    spec.node.name));
  for (const NodeType* type : spec.types())
    if (!type->network.tcp)
      refuse_tcp(
          fmt::format("the adapters of {} carry RDMA (InfiniBand or RoCE); ns-3 has packets of TCP only. An adapter "
                      "of sockets says so: hca: {{transport: tcp}} (--set cluster.hca.transport=tcp)",
                      type->name));
}

/// Joined without circles: every cable joins two parts that nothing joined before.
class JoinedParts {
 public:
  explicit JoinedParts(std::size_t nodes) : of_(nodes) { std::iota(of_.begin(), of_.end(), 0); }
  bool join(int a, int b) {
    const int one = root(a), other = root(b);
    of_[position(one)] = other;
    return one != other;
  }

 private:
  std::vector<int> of_;
  int root(int node) const {
    while (of_[position(node)] != node) node = of_[position(node)];
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
  const std::vector<DeviceId> adapters = graph.all(DeviceKind::hca), switches = graph.all(DeviceKind::network_switch);
  network.hosts = static_cast<int>(adapters.size());
  network.routers = static_cast<int>(switches.size());
  int next = 0;
  for (const std::vector<DeviceId>& kind : {adapters, switches})
    for (const DeviceId id : kind) number[position(id)] = next++;

  network.directions.resize(graph.wires().size());
  JoinedParts parts(position(next));
  for (LinkId there = 0; there < static_cast<LinkId>(graph.wires().size()); there += 2) {
    if (scope_of(graph.kind(there)) != LinkScope::fabric) continue;
    const Link &link = graph.wires()[position(there)], &back = graph.wires()[position(there + 1)];
    const DeviceGraph::End end = graph.ends(there);
    const int from = number[position(end.from)], to = number[position(end.to)];
    if (from < 0 || to < 0) refuse_tcp(fmt::format("{} ends at what is neither an adapter nor a switch", link.name));
    if (graph.medium(there) >= 0)
      refuse_tcp(fmt::format("{} shares its rate with others (a hub, or half duplex)", link.name));
    if (link.capacity != back.capacity)
      refuse_tcp(fmt::format("{} has another rate on its way back; ns-3's cables have one", link.name));
    if (!parts.join(from, to))
      refuse_tcp(
          fmt::format("this fabric has more than one path between two adapters (by {}), over which it spreads each "
                      "message; a TCP connection takes one. Take fabric: ethernet or nonblocking, or a tree",
                      link.name));
    network.cables.push_back({from, to, link.capacity, end.latency});
    network.directions[position(there)] = {from, to, end.latency};
    network.directions[position(there + 1)] = {to, from, end.latency};
  }
  return network;
}

}  // namespace trainyard
