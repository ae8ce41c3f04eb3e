#include "topologies/machines/tcp_network.hpp"

#include <fmt/format.h>

#include <boost/pending/disjoint_sets.hpp>

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
  // Joined without circles: every cable joins two parts that nothing joined before.
  boost::disjoint_sets_with_storage<> parts(position(next));
  for (std::size_t n = 0; n < position(next); ++n) parts.make_set(n);
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
    const std::size_t one = parts.find_set(position(from)), other = parts.find_set(position(to));
    if (one == other)
      refuse_tcp(
          fmt::format("this fabric has more than one path between two adapters (by {}), over which it spreads each "
                      "message; a TCP connection takes one. Take fabric: ethernet or nonblocking, or a tree",
                      link.name));
    parts.link(one, other);
    network.cables.push_back({from, to, link.capacity, end.latency});
    network.directions[position(there)] = {from, to, end.latency};
    network.directions[position(there + 1)] = {to, from, end.latency};
  }
  return network;
}

}  // namespace trainyard
