// The nodes that a site has room for.
#include "scenarios/src/running/site_room.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/running/node_power.hpp"
#include "sim/units.hpp"

namespace trainyard {

std::optional<RackRoom> rack_room(const Site& site, const NodeType& node, const Catalog& catalog) {
  if (!site.knows_racks()) return std::nullopt;
  std::optional<RackRoom> least;
  const auto limit = [&least](const char* key, double nodes) {
    if (!least || nodes < least->nodes) least = RackRoom{static_cast<int>(nodes), key};
  };
  if (site.rack_power.value > 0)
    limit("rack_power", std::floor(site.rack_power.value / provided_power(node, catalog).value));
  if (site.rack_units > 0) {
    if (node.rack_units == 0)
      throw UserError(fmt::format("the height of {} is not stated (rack_units of a node)", node.name));
    limit("rack_units", std::floor(1.0 * site.rack_units / node.rack_units));
  }
  if (site.rack_nodes > 0) limit("rack_nodes", site.rack_nodes);
  return least ? least : RackRoom{1, "racks"};
}

int racks_of(const Site& site, const NodeType& node, int nodes, const Catalog& catalog) {
  const std::optional<RackRoom> room = rack_room(site, node, catalog);
  return room && room->nodes > 0 ? (nodes + room->nodes - 1) / room->nodes : 0;
}

std::optional<SiteLimit> site_limit(const Site& site, const NodeType& node, const Catalog& catalog) {
  if ((site.power.value > 0 || site.rack_power.value > 0) && !node.gpu.power.is_given())
    throw UserError(fmt::format("the power of {} is not stated", node.gpu.name));
  const double power = provided_power(node, catalog).value;
  constexpr double most_nodes = 1e9;
  std::optional<SiteLimit> least;
  const auto limit = [&](const std::string& name, double nodes, const std::string& shortage) {
    if (!least || nodes < least->nodes)
      least = SiteLimit{node.name,
                        static_cast<int>(std::min(nodes, most_nodes)),
                        name,
                        power,
                        site.power.value,
                        site.pue,
                        0,
                        "",
                        nodes < 1 ? shortage : ""};
  };
  const auto kilowatts = [](double watts) { return fmt::format("{:.4g} kW", watts / 1e3); };
  if (site.power.value > 0)
    limit("power", std::floor(site.power.value / (power * site.pue)),
          fmt::format("a node needs {}{}, and the site has {}", kilowatts(power * site.pue),
                      site.pue > 1 ? " with cooling" : "", kilowatts(site.power.value)));
  const std::optional<RackRoom> room = rack_room(site, node, catalog);
  if (room && (site.racks > 0 || room->nodes < 1))
    limit(room->limit, 1.0 * std::max(1, site.racks) * room->nodes,
          room->limit == "rack_units"
              ? fmt::format("a node has {} units, and a rack has {}", node.rack_units, site.rack_units)
              : fmt::format("a node needs {}, and a rack has {}", kilowatts(power), kilowatts(site.rack_power.value)));
  if (site.ports > 0 && node.hcas > 0)
    limit("ports", std::floor(1.0 * site.ports / node.hcas),
          fmt::format("a node has {} adapters, and the site {} ports", node.hcas, site.ports));
  if (least && room) {
    least->nodes_of_rack = room->nodes;
    least->rack_limit = room->limit;
  }
  return least;
}

std::string room_in_words(const SiteLimit& limit) {
  return fmt::format("room for {} x {} (site.{}{}{})", limit.nodes, limit.node, limit.limit,
                     limit.node_power > 0 ? fmt::format("; {:.3g} kW a node", limit.node_power / 1e3) : "",
                     limit.nodes_of_rack > 0 ? fmt::format("; {} a rack by site.{}",
                                                           counted_noun(limit.nodes_of_rack, "node"), limit.rack_limit)
                                             : "");
}

std::string shortage_of_site(const Site& site, const ClusterSpec& cluster) {
  const bool has_limits = site.power.value > 0 || site.rack_power.value > 0 || site.racks > 0 || site.rack_units > 0 ||
                          site.rack_nodes > 0 || site.ports > 0;
  if (!has_limits || !cluster.others.empty()) return "";
  const std::optional<SiteLimit> limit = site_limit(site, cluster.node, Catalog());
  return limit && limit->nodes < cluster.nodes ? fmt::format("{}, not for {}", room_in_words(*limit), cluster.nodes)
                                               : "";
}

}  // namespace trainyard
