#include "topologies/cluster.hpp"

#include <fmt/format.h>

namespace trainyard {

Registry<NodeBuilder>& node_builders() {
  static Registry<NodeBuilder> registry{"interconnect"};
  return registry;
}
Registry<FabricBuilder>& fabric_builders() {
  static Registry<FabricBuilder> registry{"fabric"};
  return registry;
}

void read_fabric(ClusterSpec& spec, const Node& entry) {
  const Node* name = entry.find("name");
  const std::string what = "fabric " + (name ? name->scalar : "custom-fabric");
  Fields fields(entry, what);
  fields.text("name", "");
  fields.text("description", "");
  fields.child("sources");
  spec.fabric = fields.choice("type", fabric_builders().names());
  const Seconds latency = fields.seconds("switch_latency");
  constexpr Seconds most{10};  // sums of latencies stay far from overflow
  if (latency > most)
    fail(fields.place_of("switch_latency"), fmt::format("{}: switch_latency: more than {}", what, show(most)));
  spec.switch_latency = to_picoseconds(latency);
  const FabricBuilder& builder = fabric_builders().find(spec.fabric, spec.place);
  if (builder.read) builder.read(spec, fields);
  fields.finish();
  spec.fabric_sources = figure_sources(entry, what);
}

DeviceGraph build_cluster(const ClusterSpec& spec) {
  DeviceGraph graph;
  const NodeBuilder node = node_builders().find(spec.node.interconnect, spec.place);
  for (int i = 0; i < spec.nodes; ++i) node(graph, spec.node, i);
  if (spec.nodes == 1) return graph;
  if (spec.node.hcas == 0)
    fail(spec.place,
         fmt::format("{} nodes of {}, which has no HCA: they cannot reach each other", spec.nodes, spec.node.name));
  fabric_builders().find(spec.fabric, spec.place).build(graph, spec);
  return graph;
}

std::string describe(const ClusterSpec& spec) {
  std::string text = fmt::format("{} × {}", spec.nodes, spec.node.name);
  if (spec.nodes > 1)
    text += fmt::format(", {} × {:.4g} Gbit/s HCA, {}", spec.node.hcas, spec.node.hca_rate.value * 8e-9, spec.fabric);
  return text;
}

}  // namespace trainyard
