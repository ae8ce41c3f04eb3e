#include "topologies/drawings/fabric_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "topologies/analysis/fabric_view.hpp"
#include "topologies/drawings/topology_text.hpp"

namespace trainyard {
namespace {

/// How many cables, and how fast.
struct CableCount {
  int cables = 0;
  BytesPerSecond slowest, fastest;
  void add(BytesPerSecond rate) {
    slowest = cables == 0 ? rate : std::min(slowest, rate);
    fastest = std::max(fastest, rate);
    ++cables;
  }
  std::string text(const std::string& where) const {
    const std::string what = fmt::format("{} link{} {}", cables, cables == 1 ? "" : "s", where);
    return cables == 0 ? what : what + " at " + rates_text(slowest, fastest);
  }
};

bool is_switch(const FabricView& view, DeviceId d) { return view.inside(d) && !view.is_end(d); }

/// Cables of the fabric that are up, by `which` of their kinds (−1: none of them) they are.
template <class Which>
std::vector<CableCount> count_cables(const FabricView& view, std::size_t kinds, Which which) {
  std::vector<CableCount> counts(kinds);
  for (DeviceId d = 0; d < static_cast<DeviceId>(view.graph.devices().size()); ++d) {
    if (!view.inside(d)) continue;
    for (const LinkId wire : view.links(d)) {
      if (wire % 2 != 0) continue;  // the way back of a cable
      const int kind = which(d, view.graph.ends(wire).to);
      if (kind >= 0) counts[static_cast<std::size_t>(kind)].add(view.graph.links()[wire].capacity);
    }
  }
  return counts;
}

/// Those between ends and switches, then those between switches.
std::vector<CableCount> cables_of(const FabricView& view) {
  return count_cables(view, 2,
                      [&view](DeviceId a, DeviceId b) { return is_switch(view, a) && is_switch(view, b) ? 1 : 0; });
}

int index_of(const FabricView& view, DeviceId d) { return view.graph.devices()[d].index; }

/// Lengths of a grid, where they were not given: the builder numbers positions with the first dimension fastest and
/// joins each to the next higher one, so the first router's wires tell the strides.
std::vector<int> grid_dims(const FabricView& view, const ClusterSpec& spec, int routers) {
  if (!spec.shape.dims.empty()) return spec.shape.dims;
  std::vector<int> strides;
  for (const DeviceId s : view.graph.all(DeviceKind::network_switch))
    if (index_of(view, s) == 0)
      for (const LinkId wire : view.graph.links_from(s))
        if (const DeviceId to = view.graph.ends(wire).to; wire % 2 == 0 && is_switch(view, to))
          strides.push_back(index_of(view, to));
  std::sort(strides.begin(), strides.end());
  std::vector<int> dims;
  for (std::size_t d = 1; d < strides.size(); ++d) dims.push_back(strides[d] / strides[d - 1]);
  dims.push_back(strides.empty() ? routers : routers / strides.back());
  return dims;
}

/// "torus" or "mesh", "ring" or "line"; where only some dimensions are closed, which: whether the last router of a row
/// is wired to its first. (In a dimension of two there is one wire either way.)
std::string grid_text(const FabricView& view, const std::vector<int>& dims) {
  const DeviceId first = view.graph.all(DeviceKind::network_switch).front();
  std::vector<int> closed, open;
  int stride = 1;
  for (const int length : dims) {
    if (length > 2) (view.graph.link(first + stride * (length - 1), first) ? closed : open).push_back(length);
    stride *= length;
  }
  const bool torus = open.empty() || !closed.empty();
  const char* shape = dims.size() == 1 ? (torus ? "ring" : "line") : torus ? "torus" : "mesh";
  std::string text = fmt::format("{} {}", shape, fmt::join(dims, " x "));
  if (!open.empty() && !closed.empty()) text += fmt::format(" (closed along {})", fmt::join(closed, ", "));
  return text;
}

std::vector<FabricRow> torus_rows(const FabricView& view, const ClusterSpec& spec) {
  const std::vector<CableCount> cables = cables_of(view);
  const auto routers = static_cast<int>(view.graph.all(DeviceKind::network_switch).size());
  return {
      {fmt::format("{} of {}", grid_text(view, grid_dims(view, spec, routers)), spec.joins_chips ? "chips" : "nodes"),
       fmt::format("{} routers, {}, {}", routers, cables[1].text("between neighbours"),
                   cables[0].text(fmt::format("to {}s", view.end_word))),
       ""}};
}

std::vector<FabricRow> dragonfly_rows(const FabricView& view, const ClusterSpec& spec) {
  const int a = spec.shape.switches_a_group;
  const auto switches = static_cast<int>(view.graph.all(DeviceKind::network_switch).size());
  const std::vector<CableCount> cables = count_cables(view, 3, [&](DeviceId x, DeviceId y) {
    if (!is_switch(view, x) || !is_switch(view, y)) return 0;
    return index_of(view, x) / a == index_of(view, y) / a ? 1 : 2;
  });
  return {{fmt::format("{} groups of {} switches", switches / a, a),
           fmt::format("{}; {}", cables[0].text("to HCAs"), cables[1].text("within groups")), ""},
          {"global links", cables[2].text("between groups"), ""}};
}

std::vector<FabricRow> ethernet_rows(const FabricView& view, const ClusterSpec& spec) {
  const std::string links = cables_of(view)[0].text("to HCAs");
  if (!spec.shape.hub) return {{"Ethernet switch", links, ""}};
  BytesPerSecond medium;
  for (const Link& link : view.graph.links())
    if (link.name == "hub medium") medium = link.capacity;
  return {{"Ethernet hub", fmt::format("{}, all on one medium of {}: one sender at a time", links, show(medium)), ""}};
}

/// Small ones cable by cable.
std::vector<FabricRow> graph_rows(const FabricView& view) {
  constexpr int kMostListed = 24;
  const std::vector<CableCount> cables = cables_of(view);
  std::vector<FabricRow> rows{
      {fmt::format("{} switches", view.graph.all(DeviceKind::network_switch).size()), cables[0].text("to HCAs"), ""}};
  if (cables[1].cables == 0) return rows;
  rows.front().detail += "; " + cables[1].text("between switches");
  if (cables[1].cables > kMostListed) return rows;
  for (const DeviceId s : view.graph.all(DeviceKind::network_switch))
    for (const LinkId wire : view.links(s))
      if (wire % 2 == 0 && is_switch(view, view.graph.ends(wire).to))
        rows.push_back({fmt::format("{} - {}", view.name(s), view.name(view.graph.ends(wire).to)),
                        cable_text(view.graph, wire), ""});
  return rows;
}

std::vector<FabricRow> level_rows(const FabricView& view) {
  std::vector<FabricRow> rows;
  const std::vector<SwitchLevel> levels = switch_levels(view.graph);
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const SwitchLevel& level = levels[l];
    FabricRow row{fmt::format("level {}: {}", l + 1, switches_text(level)),
                  fmt::format("{} links down to {} at {}", level.links_down,
                              l == 0 ? fmt::format("{}s", view.end_word) : fmt::format("level {}", l),
                              rates_text(level.slowest_down, level.fastest_down)),
                  ""};
    if (level.links_up > 0) {
      row.detail += fmt::format(", {} up at {}", level.links_up, rates_text(level.slowest_up, level.fastest_up));
      row.up = fmt::format("{} links", level.links_up);
    }
    if (level.links_across > 0) row.detail += fmt::format(", {} within the level", level.links_across);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string routing_text(const ClusterSpec& spec) {
  if (spec.shape.hashed) return fmt::format("hashed ECMP with seed {}: one way for each pair of HCAs", spec.shape.seed);
  if (spec.fabric == "torus" || spec.fabric == "ring") return "dimension by dimension, the shorter way round";
  if (spec.fabric == "dragonfly")
    return spec.shape.valiant ? fmt::format("by way of a third group (Valiant), seed {}", spec.shape.seed)
                              : "minimal: at most one global link";
  if (spec.fabric == "folded-clos") return "ideal spraying over all uplinks";
  return spec.fabric == "graph" ? "shortest ways" : "";
}

}  // namespace

std::string rates_text(BytesPerSecond slowest, BytesPerSecond fastest) {
  const std::string from = show(slowest), to = show(fastest);
  return from == to ? to : fmt::format("{} to {}", from, to);
}

std::string cable_text(const DeviceGraph& graph, LinkId wire) {
  const auto links = graph.links();
  const BytesPerSecond there = links[wire].capacity, back = links[wire ^ 1].capacity;
  std::string text = show(there);
  if (there != back) {
    const DeviceGraph::End end = graph.ends(wire);
    const bool from_drive = graph.devices()[end.from].kind == DeviceKind::nvme;
    const bool drive = from_drive || graph.devices()[end.to].kind == DeviceKind::nvme;
    text = drive ? fmt::format("reads {}, writes {}", show(from_drive ? there : back), show(from_drive ? back : there))
                 : fmt::format("{} there, {} back", show(there), show(back));
  }
  if (graph.medium(wire) >= 0)
    text += graph.medium(wire) == graph.medium(wire ^ 1) ? " half duplex" : " on a shared medium";
  return graph.is_up(wire) ? text : text + ", down";
}

std::vector<SwitchLevel> switch_levels(const DeviceGraph& graph) {
  const FabricView view(graph);
  std::vector<int> level(graph.devices().size(), -1);
  std::vector<DeviceId> row = view.ends;
  for (const DeviceId end : row) level[end] = 0;
  std::vector<std::vector<DeviceId>> rows;
  for (int at = 1; !row.empty(); ++at) {
    std::vector<DeviceId> next;
    for (const DeviceId device : row)
      for (const LinkId link : view.links(device))
        if (int& known = level[graph.ends(link).to]; known < 0) {
          known = at;
          next.push_back(graph.ends(link).to);
        }
    if (!next.empty()) rows.push_back(next);
    row = std::move(next);
  }
  std::vector<SwitchLevel> levels(rows.size());
  std::vector<CableCount> cables = count_cables(view, rows.size(), [&level](DeviceId a, DeviceId b) {
    const int lower = std::min(level[a], level[b]);
    return level[a] == level[b] ? -1 : lower;
  });
  const std::vector<CableCount> across = count_cables(
      view, rows.size() + 1, [&level](DeviceId a, DeviceId b) { return level[a] == level[b] ? level[a] : -1; });
  for (std::size_t l = 0; l < rows.size(); ++l) {
    SwitchLevel& out = levels[l];
    out.switches = static_cast<int>(rows[l].size());
    out.name = view.name(rows[l].front());
    if (out.switches > 1) {
      out.name = out.name.substr(0, out.name.find('.'));
      out.name.erase(out.name.find_last_not_of("0123456789") + 1);
    }
    out.links_down = cables[l].cables;
    out.slowest_down = cables[l].slowest;
    out.fastest_down = cables[l].fastest;
    out.links_across = across[l + 1].cables;
    if (l + 1 == rows.size()) continue;
    out.links_up = cables[l + 1].cables;
    out.slowest_up = cables[l + 1].slowest;
    out.fastest_up = cables[l + 1].fastest;
  }
  return levels;
}

std::string switches_text(const SwitchLevel& level) {
  return level.switches == 1 ? level.name : fmt::format("{} switches ({})", level.switches, level.name);
}

std::vector<FabricRow> fabric_rows(const DeviceGraph& graph, const ClusterSpec& spec) {
  const FabricView view(graph);
  if (graph.all(DeviceKind::network_switch).empty()) return {};
  std::vector<FabricRow> rows = spec.fabric == "torus" || spec.fabric == "ring" ? torus_rows(view, spec)
                                : spec.fabric == "dragonfly"                    ? dragonfly_rows(view, spec)
                                : spec.fabric == "ethernet"                     ? ethernet_rows(view, spec)
                                : spec.fabric == "graph"                        ? graph_rows(view)
                                                                                : level_rows(view);
  const std::string routing = routing_text(spec);
  if (!routing.empty()) rows.push_back({"routing", routing, "", true});
  if (!spec.taken_out.empty()) {
    std::vector<std::string> names;
    for (const TakenOut& out : spec.taken_out) names.push_back(out.name);
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
