#include "topologies/topology_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/document.hpp"

namespace trainyard {
namespace {

const Device& device_of(const DeviceGraph& graph, DeviceId id) { return graph.devices()[static_cast<std::size_t>(id)]; }

std::string link_text(const DeviceGraph& graph, LinkId link) {
  return fmt::format("{}, {}", show(graph.links()[static_cast<std::size_t>(link)].capacity),
                     latency_text(graph.ends(link).latency));
}

std::string short_name(const std::string& name) { return name.substr(name.find('/') + 1); }

bool is_pcie(const std::string& kind) { return kind == "PCIe" || kind == "NVMe"; }

/// A tree below one device, drawn with box characters. A PCIe link leads down to what has not been seen.
struct TreeText {
  const DeviceGraph& graph;
  int node;
  std::vector<char> seen;
  std::string text;

  std::vector<std::pair<DeviceId, LinkId>> below(DeviceId device) {
    std::vector<std::pair<DeviceId, LinkId>> found;
    for (const LinkId link : graph.links_from(device)) {
      const DeviceId to = graph.ends(link).to;
      if (!is_pcie(graph.links()[static_cast<std::size_t>(link)].kind) || seen[static_cast<std::size_t>(to)]) continue;
      seen[static_cast<std::size_t>(to)] = 1;
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
      text +=
          fmt::format("{}{} {:<7} {} {}{}\n", indent, last ? "└─" : "├─", short_name(device_of(graph, child).name),
                      graph.links()[static_cast<std::size_t>(link)].kind, link_text(graph, link), network_text(child));
      put(child, indent + (last ? "   " : "│  "));
    }
  }
  /// What leaves the node from an HCA.
  std::string network_text(DeviceId device) const {
    if (device_of(graph, device).kind != DeviceKind::hca) return "";
    for (const LinkId link : graph.links_from(device))
      if (!is_pcie(graph.links()[static_cast<std::size_t>(link)].kind))
        return fmt::format("; network {}", link_text(graph, link));
    return "";
  }
};

/// Links of a kind between devices of the node, one line for those that are equal and start alike.
std::string other_links(const DeviceGraph& graph, int node) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> lines;
  for (LinkId link = 0; link < static_cast<LinkId>(graph.wires().size()); link += 2) {  // the way there; +1: back
    const DeviceGraph::End end = graph.ends(link);
    const std::string& kind = graph.links()[static_cast<std::size_t>(link)].kind;
    if (is_pcie(kind) || device_of(graph, end.from).node != node || device_of(graph, end.to).node != node) continue;
    lines[{kind, link_text(graph, link)}].push_back(
        fmt::format("{}–{}", short_name(device_of(graph, end.from).name), short_name(device_of(graph, end.to).name)));
  }
  std::string text;
  for (const auto& [kind, pairs] : lines)
    text += fmt::format("{} {}: {}\n", kind.first, kind.second, fmt::join(pairs, " "));
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

}  // namespace

std::string latency_text(Picoseconds t) {
  return t.count == 0 || t.count >= 1'000'000 ? show(t.seconds())
                                              : fmt::format("{:.4g} ns", static_cast<double>(t.count) * 1e-3);
}

DevicePath path_of(const DeviceGraph& graph, const Way& way) {
  DevicePath out;
  out.locality = way.locality;
  out.how = way.how;
  out.latency = way.latency();
  out.chunk = way.legs.size() > 1 ? way.chunk : Bytes{0};
  std::map<LinkId, int> load;  // all legs at once
  for (const WayLeg& leg : way.legs) {
    for (const LinkUse& use : leg.links) load[use.link] += use.weight;
    for (const LinkId wire : leg.wires) {
      const Link& link = graph.links()[static_cast<std::size_t>(wire)];
      const DeviceGraph::End end = graph.ends(wire);
      out.hops.push_back({device_of(graph, end.from).name, device_of(graph, end.to).name, link.kind, link.capacity,
                          end.latency, leg.what});
    }
    if (leg.wires.empty() && !leg.links.empty()) {
      const Link& link = graph.links()[static_cast<std::size_t>(leg.links.front().link)];
      out.hops.push_back({link.name, link.name, link.kind, link.capacity / leg.links.front().weight, {}, leg.what});
    }
  }
  for (const auto& [id, weight] : load) {
    const Link& link = graph.links()[static_cast<std::size_t>(id)];
    if (out.rate.value > 0 && link.capacity / weight >= out.rate) continue;
    out.rate = link.capacity / weight;
    out.limit = link.name;
    out.limit_kind = link.kind;
  }
  return out;
}

DevicePath device_path(DeviceGraph& graph, DeviceId from, DeviceId to, PathClass path) {
  const std::string &a = device_of(graph, from).name, &b = device_of(graph, to).name;
  if (from == to) throw UserError(fmt::format("{} to itself: there is no path", a));
  const std::optional<std::vector<LinkId>> wires = graph.way(from, to, path);
  if (!wires) throw UserError(fmt::format("no such path leads from {} to {}", a, b));
  Way way;
  WayLeg& leg = way.legs.emplace_back();
  leg.wires = *wires;
  for (const LinkId wire : *wires) {
    leg.links.push_back({wire, 1});
    leg.latency += graph.ends(wire).latency;
  }
  way.locality = locality_of(graph, *wires);
  return path_of(graph, way);
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

std::vector<SwitchLevel> switch_levels(const DeviceGraph& graph) {
  std::vector<int> level(graph.devices().size(), -1);
  std::vector<DeviceId> row = graph.all(DeviceKind::hca);
  for (const DeviceId hca : row) level[static_cast<std::size_t>(hca)] = 0;
  std::vector<SwitchLevel> levels;
  const auto count = [](int& links, BytesPerSecond& slowest, BytesPerSecond rate) {
    slowest = links == 0 ? rate : std::min(slowest, rate);
    ++links;
  };
  for (int at = 1; !row.empty(); ++at) {
    std::vector<DeviceId> next;
    for (const DeviceId device : row)
      for (const LinkId link : graph.links_from(device)) {
        const DeviceId to = graph.ends(link).to;
        if (device_of(graph, to).kind != DeviceKind::network_switch) continue;
        int& known = level[static_cast<std::size_t>(to)];
        if (known < 0) {
          known = at;
          next.push_back(to);
        }
        if (known != at) continue;
        if (levels.size() < static_cast<std::size_t>(at)) levels.emplace_back();
        const BytesPerSecond rate = graph.links()[static_cast<std::size_t>(link)].capacity;
        count(levels.back().links_down, levels.back().slowest_down, rate);
        if (at > 1) count(levels[levels.size() - 2].links_up, levels[levels.size() - 2].slowest_up, rate);
      }
    if (!next.empty()) levels.back().switches = static_cast<int>(next.size());
    if (next.size() == 1) levels.back().name = device_of(graph, next.front()).name;
    row = std::move(next);
  }
  return levels;
}

std::string locality(DeviceGraph& graph, DeviceId a, DeviceId b, NvlinkRate one) {
  if (a == b) return "X";
  if (const Route nvlink = graph.route(a, b, PathClass::nvlink); nvlink.reachable) {
    if (one.value <= 0) return "NV";
    const double rate = graph.links()[static_cast<std::size_t>(nvlink.links.front().link)].capacity.value;
    return fmt::format("NV{:.0f}", rate / one.value);
  }
  const std::optional<std::vector<LinkId>> pcie = graph.way(a, b, PathClass::pcie);
  return pcie ? locality_of(graph, *pcie) : "-";
}

std::string node_tree(const DeviceGraph& graph, int node) {
  TreeText tree{graph, node, std::vector<char>(graph.devices().size(), 0), ""};
  const std::vector<DeviceId> cpus = graph.all(DeviceKind::cpu, node);
  for (const DeviceId cpu : cpus) tree.seen[static_cast<std::size_t>(cpu)] = 1;
  for (const DeviceId cpu : cpus) {
    tree.text += short_name(device_of(graph, cpu).name) + "\n";
    tree.put(cpu, "");
  }
  return tree.text + other_links(graph, node);
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

std::string switches_text(const SwitchLevel& level) {
  return level.switches == 1 ? level.name : fmt::format("{} switches", level.switches);
}

std::string fabric_lines(const DeviceGraph& graph) {
  std::string text;
  const std::vector<SwitchLevel> levels = switch_levels(graph);
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const SwitchLevel& level = levels[l];
    text += fmt::format("level {}: {}, {} links down to {} at {}", l + 1, switches_text(level), level.links_down,
                        l == 0 ? "HCAs" : fmt::format("level {}", l), show(level.slowest_down));
    if (level.links_up > 0) text += fmt::format(", {} up at {}", level.links_up, show(level.slowest_up));
    text += "\n";
  }
  return text;
}

}  // namespace trainyard
