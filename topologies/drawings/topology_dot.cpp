
#include <fmt/format.h>

#include <map>
#include <set>

#include "topologies/device_noun.hpp"
#include "topologies/drawings/topology_text.hpp"
#include "topologies/fabrics/fabric_view.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostDotDevices = 400;  // above it, the fabric is drawn by level

std::string dot_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

std::string dot_style(DeviceKind kind) { return fmt::format("style=filled, fillcolor=\"{}\"", fill_of(kind)); }

/// The nodes to draw. Either all devices of the fabric are drawn, or none.
struct DrawnParts {
  std::set<int> nodes;
  bool fabric = true;
  bool has(const Device& device) const { return device.node < 0 ? fabric : nodes.contains(device.node); }
};

DrawnParts drawn_parts(const DeviceGraph& graph, const ClusterSpec& spec) {
  DrawnParts parts;
  parts.fabric = graph.devices().size() <= kMostDotDevices;
  int first = 0;
  for (const auto& [type, count] : spec.counted_types()) {
    parts.nodes.insert(first);
    first += count;
  }
  for (int node = 0; parts.fabric && node < spec.nodes; ++node) parts.nodes.insert(node);
  return parts;
}

std::string dot_devices(const DeviceGraph& graph, const DrawnParts& parts) {
  std::map<int, std::string> devices;  // indexed by node
  for (DeviceId d = 0; d < static_cast<DeviceId>(graph.devices().size()); ++d) {
    const Device& device = graph.devices()[d];
    if (!parts.has(device)) continue;
    std::string host = device.kind == DeviceKind::cpu ? host_text(graph, d) : "";
    if (!host.empty()) host = fmt::format(", label={}", dot_quoted(device.name + "\n" + host));
    devices[device.node] += fmt::format("    {} [{}{}];\n", dot_quoted(device.name), dot_style(device.kind), host);
  }
  std::string text;
  for (const auto& [node, lines] : devices)
    text += node < 0 ? lines : fmt::format("  subgraph cluster_{0} {{\n    label=\"node{0}\";\n{1}  }}\n", node, lines);
  return text;
}

std::string dot_cables(const DeviceGraph& graph, const DrawnParts& parts) {
  std::string text;
  for (LinkId link = 0; link < static_cast<LinkId>(graph.wires().size()); link += 2) {  // one direction; +1: the other
    const DeviceGraph::End end = graph.ends(link);
    const Device &from = graph.devices()[end.from], &to = graph.devices()[end.to];
    if (!parts.has(from) || !parts.has(to)) continue;
    text += fmt::format("  {} -- {} [label=\"{} {}\"{}];\n", dot_quoted(from.name), dot_quoted(to.name),
                        name_of(graph.kind(link)), cable_text(graph, link), graph.is_up(link) ? "" : ", style=dotted");
  }
  return text;
}

/// Draws the fabric as a box for each of its rows, joined from the ends upwards.
std::string dot_levels(const DeviceGraph& graph, const ClusterSpec& spec, const DrawnParts& parts) {
  const std::vector<FabricRow> rows = fabric_rows(graph, spec);
  std::string text;
  std::size_t top = 0;  // row of the highest switches of the first nodes' fabric
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const FabricRow& row = rows[r];
    text += fmt::format("    \"fabric{}\" [{}, label={}];\n", r, dot_style(DeviceKind::network_switch),
                        dot_quoted(row.title + "\n" + row.detail));
    if (r > 0 && !row.note && row.island == rows[r - 1].island)
      text += fmt::format("  \"fabric{}\" -- \"fabric{}\" [label={}];\n", r - 1, r, dot_quoted(rows[r - 1].up));
    if (r > 0 && row.island > 0 && (r + 1 == rows.size() || rows[r + 1].island != row.island))
      text += fmt::format("  \"fabric{}\" -- \"fabric{}\" [label={}];\n", r, top, dot_quoted(rows[r - 1].up));
    if (row.island == 0 && !row.note) top = r;
  }
  const auto first_row = [&rows, &spec](int node) {
    const int island = spec.island_of(node);
    return std::ranges::find_if(rows, [island](const FabricRow& row) { return row.island == island; }) - rows.begin();
  };
  const FabricView view(graph);
  for (const DeviceId end : view.ends)
    if (const Device& device = graph.devices()[end]; parts.has(device))
      for (const LinkId wire : graph.links_from(end))
        if (view.contains(graph.ends(wire).to) && !view.is_end(graph.ends(wire).to))
          text += fmt::format("  {} -- \"fabric{}\" [label=\"{} {}\"];\n", dot_quoted(device.name),
                              first_row(device.node), name_of(graph.kind(wire)), cable_text(graph, wire));
  return text;
}

}  // namespace

const char* fill_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
      return "#cfe8cf";
    case DeviceKind::hca:
      return "#fbe3c0";
    case DeviceKind::nvme:
      return "#e8d6f0";
    case DeviceKind::cpu:
      return "#d6e4f5";
    default:
      return "#eeeeee";
  }
}

std::string topology_dot(const DeviceGraph& graph, const ClusterSpec& spec, const std::string& title) {
  const DrawnParts parts = drawn_parts(graph, spec);
  std::string text = fmt::format("graph {} {{\n  label={};\n  node [shape=box, fontsize=10];\n  edge [fontsize=8];\n",
                                 dot_quoted(title), dot_quoted(title));
  text += dot_devices(graph, parts) + dot_cables(graph, parts);
  if (!parts.fabric) text += dot_levels(graph, spec, parts);
  return text + "}\n";
}

}  // namespace trainyard
