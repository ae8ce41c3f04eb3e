#include <fmt/format.h>

#include <map>

#include "topologies/topology_drawing.hpp"

namespace trainyard {
namespace {

std::string dot_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

const char* dot_style(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
      return "style=filled, fillcolor=\"#cfe8cf\"";
    case DeviceKind::hca:
      return "style=filled, fillcolor=\"#fbe3c0\"";
    case DeviceKind::cpu:
      return "style=filled, fillcolor=\"#d6e4f5\"";
    default:
      return "style=filled, fillcolor=\"#eeeeee\"";
  }
}

}  // namespace

std::string topology_dot(const DeviceGraph& graph, const std::string& title) {
  std::string text =
      fmt::format("graph {} {{\n  node [shape=box, fontsize=10];\n  edge [fontsize=8];\n", dot_quoted(title));
  std::map<int, std::string> devices;  // by node
  for (const Device& device : graph.devices())
    devices[device.node] += fmt::format("    {} [{}];\n", dot_quoted(device.name), dot_style(device.kind));
  for (const auto& [node, lines] : devices)
    text += node < 0 ? lines : fmt::format("  subgraph cluster_{0} {{\n    label=\"node{0}\";\n{1}  }}\n", node, lines);
  for (LinkId link = 0; link < static_cast<LinkId>(graph.wires().size()); link += 2) {  // the way there; +1: back
    const DeviceGraph::End end = graph.ends(link);
    const Link& wire = graph.links()[static_cast<std::size_t>(link)];
    text += fmt::format(
        "  {} -- {} [label=\"{} {}\"];\n", dot_quoted(graph.devices()[static_cast<std::size_t>(end.from)].name),
        dot_quoted(graph.devices()[static_cast<std::size_t>(end.to)].name), wire.kind, show(wire.capacity));
  }
  return text + "}\n";
}

}  // namespace trainyard
