#pragma once
#include "models/node.hpp"
#include "models/registry.hpp"
#include "topologies/device_graph.hpp"

namespace trainyard {

/// Nodes of one type and what joins them.
struct ClusterSpec {
  int nodes = 1;
  NodeType node;
  std::string fabric;  ///< name of a builder; unused by one node
  Picoseconds switch_latency;
  Sources fabric_sources;
  Place place;  ///< of the cluster in the scenario, for errors

  int gpus() const { return nodes * node.gpus; }
};

/// Reads an entry of the catalog's fabrics, `{type, switch_latency}`, into the cluster. Throws UserError with the place.
void read_fabric(ClusterSpec&, const Node& entry);

/// Wires the inside of one node: adds its GPUs, switches, CPU and HCAs.
using NodeBuilder = void (*)(DeviceGraph&, const NodeType&, int node);
/// Wires the HCAs of all nodes together.
using FabricBuilder = void (*)(DeviceGraph&, const ClusterSpec&);
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
