#pragma once
#include "models/node.hpp"
#include "models/registry.hpp"
#include "topologies/device_graph.hpp"

namespace trainyard {

/// One level of a folded Clos, from the hosts up.
struct FabricLevel {
  int down = 1;                 ///< what a switch (or group of switches) of this level has below it: HCAs, leaves, …
  double oversubscription = 1;  ///< rate from below over rate to above
};

/// Nodes of one type and what joins them.
struct ClusterSpec {
  int nodes = 1;
  NodeType node;
  std::string fabric;  ///< name of a builder; unused by one node
  Picoseconds switch_latency;
  std::vector<FabricLevel> levels;  ///< of a folded Clos
  bool rails = false;               ///< leaves take the HCAs of one index of several nodes, not all HCAs of a node
  Sources fabric_sources;
  Place place;  ///< of the cluster in the scenario, for errors

  int gpus() const { return nodes * node.gpus; }
};

/// Reads an entry of the catalog's fabrics, `{type, switch_latency}` and what its type adds, into the cluster. Throws
/// UserError with the place.
void read_fabric(ClusterSpec&, const Node& entry);

/// Wires the inside of one node: adds its GPUs, switches, CPU and HCAs.
using NodeBuilder = void (*)(DeviceGraph&, const NodeType&, int node);
/// Wires the HCAs of all nodes together; reads what only this kind of fabric has.
struct FabricBuilder {
  void (*build)(DeviceGraph&, const ClusterSpec&) = nullptr;
  void (*read)(ClusterSpec&, Fields&) = nullptr;  ///< null: nothing besides the switch latency
};
Registry<NodeBuilder>& node_builders();
Registry<FabricBuilder>& fabric_builders();

template <class Builder>
struct RegisterBuilder {
  RegisterBuilder(Registry<Builder>& registry, const char* name, Builder builder) { registry.add(name, builder); }
};

/// The whole graph. Throws UserError for unknown builders, and for several nodes without HCAs.
DeviceGraph build_cluster(const ClusterSpec&);

/// What a cluster is called in one line: "4 × dgx-a100, 8 × 200 Gbit/s HCA, nonblocking".
std::string describe(const ClusterSpec&);

}  // namespace trainyard
