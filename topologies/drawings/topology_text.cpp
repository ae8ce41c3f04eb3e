#include "topologies/drawings/topology_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/reading/document.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

const Device& device_of(const DeviceGraph& graph, DeviceId id) { return graph.devices()[id]; }

std::string link_text(const DeviceGraph& graph, LinkId link) {
  return fmt::format("{}, {}", cable_text(graph, link), latency_text(graph.ends(link).latency));
}

std::string short_name(const std::string& name) { return name.substr(name.find('/') + 1); }

/// The tree below one device, drawn with box characters. PCIe links lead down to devices that have not been drawn yet.
struct TreeText {
  const DeviceGraph& graph;
  int node;
  std::vector<char> seen;   // indexed by device
  std::vector<char> drawn;  // indexed by wire, at its first direction
  std::string text;

  std::vector<std::pair<DeviceId, LinkId>> below(DeviceId device) {
    std::vector<std::pair<DeviceId, LinkId>> found;
    for (const LinkId link : graph.links_from(device)) {
      const DeviceId to = graph.ends(link).to;
      if (scope_of(graph.kind(link)) != LinkScope::pcie || seen[to]) continue;
      seen[to] = 1;
      drawn[link & ~1] = 1;
      found.emplace_back(to, link);
    }
    std::ranges::sort(found);
    return found;
  }
  void put(DeviceId device, const std::string& indent) {
    const auto children = below(device);
    for (std::size_t i = 0; i < children.size(); ++i) {
      const bool last = i + 1 == children.size();
      const auto& [child, link] = children[i];
      text += fmt::format("{}{} {:<7} {} {}{}\n", indent, last ? "└─" : "├─", short_name(device_of(graph, child).name),
                          name_of(graph.kind(link)), link_text(graph, link), network_text(child));
      put(child, indent + (last ? "   " : "│  "));
    }
  }
  /// Describes the link that leads out of the node from an HCA, or from a chip with links of its own; "": there is
  /// none.
  std::string network_text(DeviceId device) const {
    for (const LinkId link : graph.links_from(device)) {
      const LinkKindWords& words = words_of(graph.kind(link));
      if (words.scope == LinkScope::fabric) return fmt::format("; {} {}", words.outside, link_text(graph, link));
    }
    return "";
  }
};

/// Links between devices of the node by kind, one line for those that are equal. Of PCIe links, only those that close a
/// loop.
std::string other_links(const TreeText& tree) {
  const DeviceGraph& graph = tree.graph;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> lines;        // indexed by kind and text
  for (LinkId link = 0; link < static_cast<LinkId>(graph.wires().size()); link += 2) {  // one direction; +1: the other
    const DeviceGraph::End end = graph.ends(link);
    const LinkKindWords& words = words_of(graph.kind(link));
    const bool within = device_of(graph, end.from).node == tree.node && device_of(graph, end.to).node == tree.node;
    if (!within || tree.drawn[link]) continue;
    const char* also = words.scope == LinkScope::pcie ? "also " : "";
    lines[{words.name, also + fmt::format("{} {}", words.name, link_text(graph, link))}].push_back(
        fmt::format("{}–{}", short_name(device_of(graph, end.from).name), short_name(device_of(graph, end.to).name)));
  }
  std::string text;
  for (const auto& [kind, pairs] : lines) text += fmt::format("{}: {}\n", kind.second, fmt::join(pairs, " "));
  return text;
}

std::vector<DeviceId> endpoints(const DeviceGraph& graph, int node) {
  std::vector<DeviceId> devices = graph.devices_of_kind(DeviceKind::gpu, node);
  const std::vector<DeviceId> hcas = graph.devices_of_kind(DeviceKind::hca, node);
  devices.insert(devices.end(), hcas.begin(), hcas.end());
  return devices;
}

constexpr const char* kLegend =
    "NV# = that many NVLinks (NV: through NVSwitch), PIX = one PCIe switch, PXB = several, PHB = through the CPU,\n"
    "SYS = through both sockets\n";

/// How close GPUs must be to reach each other's memory over PCIe.
const char* reach_of(PeerToPeer reach) {
  switch (reach) {
    case PeerToPeer::none:
      return "no other memory over PCIe";
    case PeerToPeer::pcie_switch:
      return "others behind the same PCIe switches (PIX, PXB)";
    case PeerToPeer::socket:
      return "others of the same socket (PIX to PHB)";
    case PeerToPeer::node:
      break;
  }
  return "all others";
}

}  // namespace

std::string latency_text(Picoseconds t) {
  return t.count == 0 || t.count >= 1'000'000 ? show(t.seconds())
                                              : fmt::format("{:.4g} ns", static_cast<double>(t.count) * 1e-3);
}

std::string host_text(const DeviceGraph& graph, DeviceId cpu) {
  const DeviceGraph::Host host = graph.host(cpu);
  const auto rate = [&graph](LinkId link) { return show(graph.links()[link].capacity); };
  std::string text = host.memory < 0 ? "" : fmt::format("memory {}", rate(host.memory));
  if (host.copies >= 0) text += fmt::format("{}copies {}", text.empty() ? "" : ", ", rate(host.copies));
  return text;
}

DevicePath path_of(const DeviceGraph& graph, const Path& path) {
  DevicePath out;
  out.locality = path.locality;
  out.means = path.means;
  out.latency = path.latency();
  out.chunk = path.legs.size() > 1 ? path.chunk : Bytes{0};
  std::map<LinkId, double> load;  // all legs at once
  for (const PathLeg& leg : path.legs) {
    for (const LinkUse& use : leg.links) load[use.link] += use.weight;
    for (const LinkId wire : leg.wires) {
      const Link& link = graph.links()[wire];
      const DeviceGraph::End end = graph.ends(wire);
      out.hops.push_back({device_of(graph, end.from).name, device_of(graph, end.to).name, link.kind, link.capacity,
                          end.latency, leg.what});
    }
    if (leg.wires.empty() && !leg.links.empty()) {
      const Link& link = graph.links()[leg.links.front().link];
      out.hops.push_back({link.name, link.name, link.kind, link.capacity / leg.links.front().weight, {}, leg.what});
    }
  }
  for (const auto& [id, weight] : load) {
    const Link& link = graph.links()[id];
    if (out.rate.value > 0 && link.capacity / weight >= out.rate) continue;
    out.rate = link.capacity / weight;
    out.limit = link.name;
    out.limit_kind = link.kind;
  }
  return out;
}

DeviceId find_device(const DeviceGraph& graph, const std::string& word) {
  if (!word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; })) {
    const std::vector<DeviceId> gpus = graph.devices_of_kind(DeviceKind::gpu);
    if (word.size() > 9 || std::stoul(word) >= gpus.size())
      throw UserError(fmt::format("rank {}: there are ranks 0 to {}", word, gpus.size() - 1));
    return gpus[std::stoul(word)];
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < graph.devices().size(); ++i) {
    const std::string& name = graph.devices()[i].name;
    if (name == word || name == "node0/" + word) return static_cast<DeviceId>(i);
    names.push_back(name);
  }
  const auto near = nearest(word.find('/') == std::string::npos ? "node0/" + word : word, names);
  throw UserError(fmt::format("unknown device \"{}\"; {}", word,
                              near ? fmt::format("did you mean \"{}\"?", *near)
                                   : fmt::format("a device has a name such as {}", names.front())));
}

std::string locality(DeviceGraph& graph, DeviceId a, DeviceId b, NvlinkRate nvlink_rate) {
  if (a == b) return "X";
  if (const std::optional<std::vector<LinkId>> nvlink = graph.path(a, b, PathClass::nvlink)) {
    if (nvlink_rate.value <= 0) return "NV";
    const double rate = graph.wires()[nvlink->front()].capacity.value;
    return fmt::format("NV{:.0f}", rate / nvlink_rate.value);
  }
  const std::optional<std::vector<LinkId>> pcie = graph.path(a, b, PathClass::pcie);
  return pcie ? locality_of(graph, *pcie) : "-";
}

std::string node_tree(const DeviceGraph& graph, int node) {
  TreeText tree{graph, node, std::vector<char>(graph.devices().size(), 0), std::vector<char>(graph.wires().size(), 0),
                ""};
  std::vector<DeviceId> roots = graph.devices_of_kind(DeviceKind::cpu, node);
  for (const DeviceId cpu : roots) tree.seen[cpu] = 1;
  // Devices without a CPU are roots themselves, switches first. NVSwitches are named with their links.
  for (const DeviceKind kind : {DeviceKind::pcie_switch, DeviceKind::gpu, DeviceKind::hca, DeviceKind::nvme})
    for (const DeviceId device : graph.devices_of_kind(kind, node)) roots.push_back(device);
  for (const DeviceId root : roots) {
    const bool cpu = device_of(graph, root).kind == DeviceKind::cpu;
    if (!cpu && tree.seen[root]) continue;
    tree.seen[root] = 1;
    const std::string host = host_text(graph, root);
    tree.text += short_name(device_of(graph, root).name) + (host.empty() ? "" : "    " + host) + "\n";
    tree.put(root, "");
  }
  return tree.text + other_links(tree);
}

std::string locality_matrix(DeviceGraph& graph, int node, NvlinkRate nvlink_rate) {
  const std::vector<DeviceId> devices = endpoints(graph, node);
  std::string text = fmt::format("{:7}", "");
  for (const DeviceId device : devices) text += fmt::format("{:<6}", short_name(device_of(graph, device).name));
  text.erase(text.find_last_not_of(' ') + 1);
  for (const DeviceId a : devices) {
    std::string line = fmt::format("\n{:<7}", short_name(device_of(graph, a).name));
    for (const DeviceId b : devices) line += fmt::format("{:<6}", locality(graph, a, b, nvlink_rate));
    text += line.erase(line.find_last_not_of(' ') + 1);
  }
  return text + "\n" + kLegend;
}

std::string staging_text(DeviceGraph& graph, const ClusterSpec& spec, int node) {
  Routing routing(graph, spec);
  const std::vector<DeviceId> gpus = graph.devices_of_kind(DeviceKind::gpu, node);
  for (const DeviceId a : gpus)
    for (const DeviceId b : gpus)
      if (const Path path = a == b ? Path{} : routing.path(a, b, PathClass::automatic);
          path.means == "through host memory")
        return fmt::format(
            "through host memory, in chunks of {}: GPUs that do not reach each other peer to peer, for example {} and "
            "{} ({});\n"
            "a GPU here reaches {}\n",
            show(path.chunk), short_name(device_of(graph, a).name), short_name(device_of(graph, b).name), path.locality,
            reach_of(spec.type_of(node).peer_to_peer));
  return "";
}

std::vector<FabricRow> fabric_rows(const DeviceGraph& graph, const ClusterSpec& spec) {
  if (!spec.fabric || graph.devices_of_kind(DeviceKind::network_switch).empty()) return {};
  std::vector<FabricRow> rows;
  for (const ClusterSpec& part : spec.parts()) {
    const std::string lead = part.island > 0 ? fmt::format("island {}, ", part.island) : "";
    for (FabricRow& row : part.fabric->rows(graph, part)) {
      row.title = lead + row.title;
      row.island = part.island;
      rows.push_back(std::move(row));
    }
    if (part.island == 0) continue;
    const IslandLinks& links = spec.others[static_cast<std::size_t>(part.island) - 1].links;
    rows.back().up = counted_noun(links.count, "link");
    rows.push_back({fmt::format("cables of island {} ({} x {})", part.island, part.nodes, part.node.name),
                    fmt::format("{} at {}, {}, to the fabric of the first nodes", rows.back().up, show(links.rate),
                                show(links.latency.seconds())),
                    "", false, part.island});
  }
  for (const ClusterSpec& part : spec.parts())
    if (const std::string routing = part.fabric->routing(); !routing.empty())
      rows.push_back(
          {part.island > 0 ? fmt::format("routing of island {}", part.island) : "routing", routing, "", true});
  if (!spec.taken_out.empty()) {
    std::vector<std::string> names;
    for (const RemovedPart& out : spec.taken_out) names.push_back(out.name);
    rows.push_back({"taken out", fmt::format("{}", fmt::join(names, ", ")), "", true});
  }
  return rows;
}

std::string fabric_lines(const DeviceGraph& graph, const ClusterSpec& spec) {
  std::string text;
  for (const FabricRow& row : fabric_rows(graph, spec))
    text += fmt::format("{}{} {}\n", row.title, row.note ? ":" : ",", row.detail);
  return text;
}

}  // namespace trainyard
