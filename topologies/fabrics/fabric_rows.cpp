#include "topologies/fabrics/fabric_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "topologies/device_noun.hpp"

namespace trainyard {

void CableCount::add(BytesPerSecond rate) {
  slowest = cables == 0 ? rate : std::min(slowest, rate);
  fastest = std::max(fastest, rate);
  ++cables;
}

std::string CableCount::text(const std::string& where) const {
  const std::string what = fmt::format("{} {}", counted_noun(cables, "link"), where);
  return cables == 0 ? what : what + " at " + rates_text(slowest, fastest);
}

bool is_switch(const FabricView& view, DeviceId d) { return view.contains(d) && !view.is_end(d); }

std::vector<CableCount> count_cables(const FabricView& view, std::size_t kinds,
                                     const std::function<int(DeviceId, DeviceId)>& kind_of) {
  std::vector<CableCount> counts(kinds);
  for (DeviceId d = 0; d < static_cast<DeviceId>(view.graph.devices().size()); ++d) {
    if (!view.contains(d)) continue;
    for (const LinkId wire : view.links(d)) {
      if (wire % 2 != 0) continue;  // second direction of a cable
      const int kind = kind_of(d, view.graph.ends(wire).to);
      if (kind >= 0) counts[kind].add(view.graph.links()[wire].capacity);
    }
  }
  return counts;
}

bool is_border(const FabricView& view, DeviceId d) { return is_switch(view, d) && view.name(d).ends_with("border"); }

std::vector<CableCount> cables_of(const FabricView& view) {
  return count_cables(view, 2, [&view](DeviceId a, DeviceId b) {
    if (is_border(view, a) || is_border(view, b)) return -1;
    return is_switch(view, a) && is_switch(view, b) ? 1 : 0;
  });
}

void add_border_row(const FabricView& view, std::vector<FabricRow>& rows) {
  const CableCount cables = count_cables(view, 1, [&view](DeviceId a, DeviceId b) {
                              return is_border(view, a) || is_border(view, b) ? 0 : -1;
                            }).front();
  if (cables.cables == 0) return;
  rows.back().up = counted_noun(cables.cables, "link");
  rows.push_back({"border switch", cables.text("from the switches above"), ""});
}

int index_of(const FabricView& view, DeviceId d) { return view.graph.devices()[d].index; }

std::vector<SwitchLevel> switch_levels(const FabricView& view) {
  const DeviceGraph& graph = view.graph;
  std::vector<int> level(graph.devices().size(), -1);
  std::vector<DeviceId> row = view.ends;
  for (const DeviceId end : row) level[end] = 0;
  std::vector<std::vector<DeviceId>> rows;
  for (int distance = 1; !row.empty(); ++distance) {
    std::vector<DeviceId> next;
    for (const DeviceId device : row)
      for (const LinkId link : view.links(device))
        if (int& known_level = level[graph.ends(link).to]; known_level < 0) {
          known_level = distance;
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
    out.name = out.switches > 1 ? view.level_name(rows[l].front()) : view.name(rows[l].front());
    out.down = cables[l];
    if (l + 1 < rows.size()) out.up = cables[l + 1];
    out.links_across = across[l + 1].cables;
  }
  return levels;
}

std::string switches_text(const SwitchLevel& level) {
  return level.switches == 1 ? level.name : fmt::format("{} switches ({})", level.switches, level.name);
}

std::vector<FabricRow> level_rows(const FabricView& view) {
  std::vector<FabricRow> rows;
  const std::vector<SwitchLevel> levels = switch_levels(view);
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const SwitchLevel& level = levels[l];
    FabricRow row{fmt::format("level {}: {}", l + 1, switches_text(level)),
                  fmt::format("{} down to {} at {}", counted_noun(level.down.cables, "link"),
                              l == 0 ? fmt::format("{}s", view.end_word) : fmt::format("level {}", l),
                              rates_text(level.down.slowest, level.down.fastest)),
                  ""};
    if (level.up.cables > 0) {
      row.detail += fmt::format(", {} up at {}", level.up.cables, rates_text(level.up.slowest, level.up.fastest));
      row.up = counted_noun(level.up.cables, "link");
    }
    if (level.links_across > 0) row.detail += fmt::format(", {} within the level", level.links_across);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace trainyard
