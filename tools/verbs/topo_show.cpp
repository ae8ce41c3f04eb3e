#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/pictures/topology_picture.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/topo_machine.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"
#include "topologies/drawings/topology_text.hpp"
#include "topologies/fabrics/fabric_rows.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

std::string wiring_text(const TopoMachine& machine, DeviceGraph& graph) {
  std::string text = fmt::format("{}: {}\n\n{}\n", machine.name, describe(machine.cluster), node_tree(graph, 0));
  text += locality_matrix(graph, 0, machine.cluster.node.nvlink_rate);
  text += staging_text(graph, machine.cluster, 0);
  const std::string fabric = fabric_lines(graph, machine.cluster);
  int first = machine.cluster.nodes_of_first_type();
  for (const NodeGroup& group : machine.cluster.others) {
    text += fmt::format("\nnode{} to node{}: {}\n{}", first, first + group.count - 1, group.type.name,
                        node_tree(graph, first));
    first += group.count;
  }
  if (!fabric.empty()) text += fmt::format("\nnode0 is the first of {}\n{}", machine.cluster.nodes, fabric);
  return text;
}

ordered_json locality_json(const TopoMachine& machine, DeviceGraph& graph) {
  ordered_json rows = ordered_json::object();
  std::vector<DeviceId> devices = graph.devices_of_kind(DeviceKind::gpu, 0);
  for (const DeviceId hca : graph.devices_of_kind(DeviceKind::hca, 0)) devices.push_back(hca);
  const auto name = [&graph](DeviceId id) { return graph.devices()[id].name; };
  for (const DeviceId a : devices)
    for (const DeviceId b : devices) rows[name(a)][name(b)] = locality(graph, a, b, machine.cluster.node.nvlink_rate);
  return rows;
}

ordered_json wiring_json(const TopoMachine& machine, DeviceGraph& graph) {
  ordered_json devices = ordered_json::array(), links = ordered_json::array(), levels = ordered_json::array(),
               fabric = ordered_json::array();
  for (const Device& device : graph.devices())
    devices.push_back({{"name", device.name}, {"kind", name_of(device.kind)}, {"node", device.node}});
  // Even numbers are one direction of a wire; the next odd number is the other direction.
  for (LinkId link = 0; link < static_cast<LinkId>(graph.wires().size()); link += 2) {
    const DeviceGraph::End end = graph.ends(link);
    const Link& wire = graph.links()[link];
    links.push_back({{"from", graph.devices()[end.from].name},
                     {"to", graph.devices()[end.to].name},
                     {"kind", wire.kind},
                     {"rate_Bps", wire.capacity.value},
                     {"rate_back_Bps", graph.links()[link ^ 1].capacity.value},
                     {"half_duplex", graph.medium(link) >= 0 && graph.medium(link) == graph.medium(link ^ 1)},
                     {"up", graph.is_up(link)},
                     {"latency_s", end.latency.seconds().value}});
  }
  for (const SwitchLevel& level : switch_levels(FabricView(graph)))
    levels.push_back({{"name", level.name},
                      {"switches", level.switches},
                      {"links_down", level.down.cables},
                      {"links_up", level.up.cables},
                      {"links_across", level.links_across},
                      {"rate_down_Bps", level.down.slowest.value},
                      {"rate_up_Bps", level.up.slowest.value}});
  for (const FabricRow& row : fabric_rows(graph, machine.cluster))
    fabric.push_back({{"what", row.title}, {"detail", row.detail}});
  return {{"name", machine.name},
          {"nodes", machine.cluster.nodes},
          {"devices", devices},
          {"links", links},
          {"locality", locality_json(machine, graph)},
          {"levels", levels},
          {"fabric", fabric}};
}

int topo_show(const std::vector<std::string>& words) {
  Arguments arguments(
      "topo show",
      "Shows a node's wiring as a tree and a matrix, and the levels of the fabric; also as DOT, SVG or JSON.",
      "topo show dgx-1v\n  trainyard topo show dgx-a100 --svg node.svg\n"
      "  trainyard topo show dgx-h100 --nodes 64 --fabric rail-optimized");
  TopoMachineArguments machine_arguments;
  std::string dot, svg, json;
  machine_arguments.add_to(arguments);
  arguments.output("--dot", dot,
                   "write the graph for Graphviz (a large one as one node, and the fabric by level); - is stdout");
  arguments.output("--svg", svg, "draw the first node and the fabric by level; - is stdout");
  arguments.output("--json", json, "write the whole graph as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const TopoMachine machine = machine_arguments.read("topo show");
  DeviceGraph graph = build_cluster(machine.cluster);
  const std::string device = device_noun(machine.cluster);
  const std::string title = fmt::format("{}: {}", machine.name, describe(machine.cluster));
  if (!dot.empty()) write_atomically(dot, in_words_of(device, topology_dot(graph, machine.cluster, title)));
  if (!svg.empty()) write_atomically(svg, in_words_of(device, topology_svg(graph, machine.cluster, title)));
  if (!json.empty()) write_json(json, wiring_json(machine, graph));  // large for thousands of nodes
  if (arguments.leaves_stdout_free()) write_atomically("-", in_words_of(device, wiring_text(machine, graph)));
  return kGood;
}

const RegisterTopoVerb registered_topo_show{
    "show", "show a node's wiring as tree, matrix and picture, and the fabric by level", topo_show};

std::vector<FieldRow> wiring_json_rows() {
  return {
      {"name", "text", "name of the machine", ""},
      {"nodes", "number", "number of nodes", ""},
      {"devices", "list", "devices of the graph", ""},
      {"devices[].name", "text", "name of the device", ""},
      {"devices[].kind", "text", "kind of the device: gpu, hca, switch, …", ""},
      {"devices[].node", "number", "node of the device; -1: outside nodes", ""},
      {"links", "list", "links between devices", ""},
      {"links[].from", "text", "device at one end", ""},
      {"links[].to", "text", "device at the other end", ""},
      {"links[].kind", "text", "kind of the link: nvlink, pcie, …", ""},
      {"links[].rate_Bps", "B/s", "rate of the first direction", ""},
      {"links[].rate_back_Bps", "B/s", "rate of the way back", ""},
      {"links[].half_duplex", "true|false", "both directions share one rate", ""},
      {"links[].up", "true|false", "the link works", ""},
      {"links[].latency_s", "s", "latency of the link", ""},
      {"locality", "{key: {key: text}}", "path between two devices of the first node, as nvidia-smi topo names it", ""},
      {"levels", "list", "levels of switches of the fabric", ""},
      {"levels[].name", "text", "name of the level", ""},
      {"levels[].switches", "number", "number of switches", ""},
      {"levels[].links_down", "number", "links to the level below", ""},
      {"levels[].links_up", "number", "links to the level above", ""},
      {"levels[].links_across", "number", "links within the level", ""},
      {"levels[].rate_down_Bps", "B/s", "rate of the slowest link down", ""},
      {"levels[].rate_up_Bps", "B/s", "rate of the slowest link up", ""},
      {"fabric", "list", "lines on the fabric", ""},
      {"fabric[].what", "text", "title of the line", ""},
      {"fabric[].detail", "text", "what the line says", ""}};
}
const RegisterJsonReference wiring_json_reference{"topo show", "the whole graph of a machine", wiring_json_rows};

}  // namespace
}  // namespace trainyard
