#include "topologies/machines/star_cluster.hpp"

namespace trainyard {

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
