#include "strategies/collectives/machine_rate.hpp"

#include <algorithm>
#include <vector>

#include "sim/error.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "strategies/collectives/node_rings.hpp"
#include "topologies/routing.hpp"

namespace trainyard {
namespace {

// Fractions of the rate of PCIe lanes that NCCL reaches, from the large sizes of
// scenarios/measured/tables/nccl_sweeps.csv (medians over systems).
/// Peer to peer below one root complex or switch: RTX 4090 0.80, MI210 0.75, V100 0.67 and 0.71, A100 pairs 0.75.
constexpr double kPeerShare = 0.75;
/// Peer to peer between sockets: RTX 4090 behind two EPYC 0.65, pairs of A100 0.75 and 0.82.
constexpr double kFarPeerShare = 0.72;
/// Through host memory, by loads and stores of kernels: RTX 4090 0.48, 5090 0.43, V100 0.35 to 0.49, 2080 Ti 0.51.
constexpr double kHostShare = 0.44;

double share_of(const Path& path) {
  if (path.means == "through host memory") return kHostShare;
  return path.locality == "SYS" ? kFarPeerShare : kPeerShare;
}

ClusterSpec one_node(const ClusterSpec& cluster) {
  ClusterSpec one = cluster;
  one.nodes = 1;
  one.others.clear();
  one.fabric = nullptr;
  one.taken_out.clear();
  return one;
}

ModelledFlow flow_in(const NodeType& node, const std::vector<Actor>& members, Operation operation) {
  CollectiveSettings settings;
  if (static_cast<int>(members.size()) == node.gpus && !node.nvlink_mesh.empty()) {
    try {
      settings.rings = node_rings(node);
    } catch (const UserError&) {  // no ring by these links alone
    }
  }
  return modelled_flow(operation, settings, members);
}

}  // namespace

BytesPerSecond machine_rate(const ClusterSpec& cluster, int gpus, Operation operation) {
  const NodeType& node = cluster.node;
  if (gpus < 2 || node.interconnect == "nvswitch" || cluster.joins_chips()) return {};
  const ClusterSpec spec = one_node(cluster);
  DeviceGraph graph = build_cluster(spec);
  Routing routing(graph, spec);
  const std::vector<DeviceId> devices = graph.devices_of_kind(DeviceKind::gpu, 0);
  std::vector<Actor> members;
  for (int i = 0; i < std::min(gpus, node.gpus); ++i) members.push_back(i);
  const ModelledFlow flow = flow_in(node, members, operation);
  // For each link: its bytes at full rate, if each edge of weight 1 carries one byte.
  std::vector<double> load(graph.links().size());
  bool by_lanes = false;
  for (const GroupFlow::Edge& edge : flow.edges) {
    const Path path = routing.path(devices[static_cast<std::size_t>(edge.from)],
                                   devices[static_cast<std::size_t>(edge.to)], PathClass::automatic);
    if (!path.reachable || path.locality == "NV" || path.locality == name_of(LinkKind::ici)) continue;
    by_lanes = true;
    for (const PathLeg& leg : path.legs)
      for (const LinkUse& use : leg.links)
        load[static_cast<std::size_t>(use.link)] +=
            use.weight * edge.weight / (graph.is_wire(use.link) ? share_of(path) : 1);
  }
  if (!by_lanes) return {};
  double seconds_per_byte = 0;
  for (std::size_t link = 0; link < load.size(); ++link)
    seconds_per_byte = std::max(seconds_per_byte, load[link] / graph.links()[link].capacity.value);
  return BytesPerSecond{flow.ways / seconds_per_byte};
}

}  // namespace trainyard
