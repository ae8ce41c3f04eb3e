#pragma once
#include <fmt/format.h>

#include <algorithm>

#include "tests/places.hpp"
#include "topologies/analysis/fabric_cuts.hpp"
#include "topologies/cluster.hpp"

namespace trainyard::test {

/// Nodes with one GPU and one HCA of 10 GB/s each, and PCIe that is never the limit; `fabric` joins them.
inline ClusterSpec bare_hosts(int count, std::shared_ptr<const Fabric> fabric = nullptr) {
  ClusterSpec spec;
  spec.place = nowhere();
  spec.nodes = count;
  spec.node.name = "host";
  spec.node.gpus = spec.node.hcas = 1;
  spec.node.interconnect = "pcie";
  spec.node.pcie_rate = BytesPerSecond{1e15};
  spec.node.hca_rate = BytesPerSecond{1e10};
  spec.fabric = std::move(fabric);
  return spec;
}

/// A folded Clos with these levels, from the leaves up; without levels, one ideal switch.
inline std::shared_ptr<const Fabric> clos_of(const std::vector<FabricLevel>& levels, bool rails = false) {
  if (levels.empty()) return make_fabric("nonblocking");
  std::string list;
  for (const FabricLevel& level : levels)
    list += fmt::format("{{down: {}, oversubscription: {}}}, ", level.down, level.oversubscription);
  return make_fabric("folded-clos", fmt::format("{{levels: [{}], rails: {}}}", list, rails));
}

/// The max-flow from the ends `from` to all others by the fabric's check, bytes/s.
inline double cut_capacity(const DeviceGraph& graph, const std::vector<DeviceId>& from) {
  const FabricView view(graph);
  std::vector<char> chosen;
  for (const DeviceId end : view.ends) chosen.push_back(std::ranges::find(from, end) != from.end());
  return FabricCuts(view).capacity(chosen);
}

}  // namespace trainyard::test
