#include "topologies/drawings/topology_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "models/reading/document.hpp"
#include "topologies/cable_text.hpp"

namespace trainyard {
namespace {

const Device& device_of(const DeviceGraph& graph, DeviceId id) { return graph.devices()[id]; }

std::string link_text(const DeviceGraph& graph, LinkId link) {
  return fmt::format("{}, {}", cable_text(graph, link), latency_text(graph.ends(link).latency));
}

std::string short_name(const std::string& name) { return name.substr(name.find('/') + 1); }

/// The tree below one device, drawn with box characters. PCIe links lead down to devices that are not drawn yet.
struct TreeText {
  const DeviceGraph& graph;
  int node;
  std::vector<char> seen;   // devices
  std::vector<char> drawn;  // wires, by the way there
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
    std::sort(found.begin(), found.end());
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
  /// The link out of the node of an HCA, or of a chip with links of its own.
  std::string network_text(DeviceId device) const {
    for (const LinkId link : graph.links_from(device)) {
      const LinkKindWords& words = words_of(graph.kind(link));
      if (words.scope == LinkScope::fabric) return fmt::format("; {} {}", words.outside, link_text(graph, link));
    }
    return "";
  }
};

/// Links of a kind between devices of the node, one line for those that are equal; of PCIe those that close a loop.
std::string other_links(const TreeText& tree) {
  const DeviceGraph& graph = tree.graph;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> lines;  // by kind, in alphabetical order
  for (LinkId link = 0; link < static_cast<LinkId>(graph.wires().size()); link += 2) {  // the way there; +1: back
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
  std::vector<DeviceId> devices = graph.all(DeviceKind::gpu, node);
  const std::vector<DeviceId> hcas = graph.all(DeviceKind::hca, node);
  devices.insert(devices.end(), hcas.begin(), hcas.end());
  return devices;
}

constexpr const char* kLegend =
    "NV# = that many NVLinks (NV: through NVSwitch), PIX = one PCIe switch, PXB = several, PHB = through the CPU,\n"
    "SYS = through both sockets\n";

/// How near GPUs must be to reach each other's memory over PCIe.
const char* reach_of(PeerToPeer reach) {
  constexpr std::array<const char*, 4> words{"no other memory over PCIe",
                                             "others behind the same PCIe switches (PIX, PXB)",
                                             "others of the same socket (PIX to PHB)", "all others"};
  return words.at(static_cast<std::size_t>(reach));
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
  out.how = path.how;
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
  if (!word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    const std::vector<DeviceId> gpus = graph.all(DeviceKind::gpu);
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
  throw UserError(fmt::format(
      "unknown device \"{}\"; {}", word,
      near ? fmt::format("did you mean \"{}\"?", *near) : fmt::format("devices are called as {}", names.front())));
}

std::string locality(DeviceGraph& graph, DeviceId a, DeviceId b, NvlinkRate one) {
  if (a == b) return "X";
  if (const std::optional<std::vector<LinkId>> nvlink = graph.path(a, b, PathClass::nvlink)) {
    if (one.value <= 0) return "NV";
    const double rate = graph.wires()[nvlink->front()].capacity.value;
    return fmt::format("NV{:.0f}", rate / one.value);
  }
  const std::optional<std::vector<LinkId>> pcie = graph.path(a, b, PathClass::pcie);
  return pcie ? locality_of(graph, *pcie) : "-";
}

std::string node_tree(const DeviceGraph& graph, int node) {
  TreeText tree{graph, node, std::vector<char>(graph.devices().size(), 0), std::vector<char>(graph.wires().size(), 0),
                ""};
  std::vector<DeviceId> roots = graph.all(DeviceKind::cpu, node);
  for (const DeviceId cpu : roots) tree.seen[cpu] = 1;
  // What hangs at no CPU stands by itself, switches first; NVSwitches are named with their links.
  for (const DeviceKind kind : {DeviceKind::pcie_switch, DeviceKind::gpu, DeviceKind::hca, DeviceKind::nvme})
    for (const DeviceId device : graph.all(kind, node)) roots.push_back(device);
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

std::string locality_matrix(DeviceGraph& graph, int node, NvlinkRate one) {
  const std::vector<DeviceId> devices = endpoints(graph, node);
  std::string text = fmt::format("{:7}", "");
  for (const DeviceId device : devices) text += fmt::format("{:<6}", short_name(device_of(graph, device).name));
  text.erase(text.find_last_not_of(' ') + 1);
  for (const DeviceId a : devices) {
    std::string line = fmt::format("\n{:<7}", short_name(device_of(graph, a).name));
    for (const DeviceId b : devices) line += fmt::format("{:<6}", locality(graph, a, b, one));
    text += line.erase(line.find_last_not_of(' ') + 1);
  }
  return text + "\n" + kLegend;
}

std::string staging_text(DeviceGraph& graph, const ClusterSpec& spec, int node) {
  Routing routing(graph, spec);
  const std::vector<DeviceId> gpus = graph.all(DeviceKind::gpu, node);
  for (const DeviceId a : gpus)
    for (const DeviceId b : gpus)
      if (const Path path = a == b ? Path{} : routing.path(a, b, PathClass::automatic);
          path.how == "through host memory")
        return fmt::format(
            "through host memory, in chunks of {}: GPUs that do not reach each other peer to peer, as {} and {} ({});\n"
            "a GPU here reaches {}\n",
            show(path.chunk), short_name(device_of(graph, a).name), short_name(device_of(graph, b).name), path.locality,
            reach_of(spec.type_of(node).peer_to_peer));
  return "";
}

}  // namespace trainyard
