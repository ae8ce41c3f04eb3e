// The border switch of an island, where its cables to other islands end.
#include <algorithm>

#include "topologies/cluster.hpp"

namespace trainyard {

DeviceId first_device(const DeviceGraph& graph, const ClusterSpec& part) {
  const auto found =
      std::ranges::find_if(graph.devices(), [&part](const Device& device) { return device.node == part.first_node; });
  return static_cast<DeviceId>(found - graph.devices().begin());
}

std::vector<LinkId> add_border(DeviceGraph& graph, const ClusterSpec& part, const std::vector<DeviceId>& switches) {
  std::vector<LinkId> wires;
  if (part.border_rate.value <= 0) return wires;
  const DeviceId border = graph.add(fabric_switch(part, "border", 0));
  const Wire share{LinkKind::uplink, part.border_rate / static_cast<double>(switches.size()), part.switch_latency};
  for (const DeviceId each : switches) wires.push_back(graph.connect(each, border, share));
  return wires;
}

}  // namespace trainyard
