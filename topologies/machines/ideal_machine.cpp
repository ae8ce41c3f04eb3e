#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {

void IdealMachine::connect(Actor from, Actor to) {
  const auto [found, fresh] = uses_.try_emplace({from, to}, LinkUse{static_cast<LinkId>(links_.size()), 1});
  if (fresh) links_.push_back({actor_name(from) + " -> " + actor_name(to), "wire", BytesPerSecond{kBytesPerSecond}});
}

Route IdealMachine::route(Actor from, Actor to, PathClass) const {
  Route route;
  const auto found = uses_.find({from, to});
  route.reachable = found != uses_.end();
  if (route.reachable) route.links = {&found->second, 1};
  return route;
}

ClusterSpec star_cluster(int gpus, BytesPerSecond link, Picoseconds hop_latency) {
  ClusterSpec spec;
  spec.place = Place::named("a star of devices");
  NodeType& node = spec.node;
  node.name = "star";
  node.gpus = gpus;
  node.interconnect = "nvswitch";
  node.nvlink_latency = hop_latency;
  node.pcie_rate = link;
  node.gpu.name = "device";
  node.gpu.nvlink = link;
  node.gpu.memory_bandwidth = BytesPerSecond{1e15};
  node.gpu.memory_capacity = Bytes{1e15};
  for (FlopsPerSecond& peak : node.gpu.peak) peak = FlopsPerSecond{1e12};  // so that 1e9 FLOP take a millisecond
  return spec;
}

}  // namespace trainyard
