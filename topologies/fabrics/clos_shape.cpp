#include "topologies/fabrics/clos_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace trainyard {

void require_ports(const std::vector<FabricLevel>& levels, const ClusterSpec& spec) {
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const FabricLevel& level = levels[l];
    const double ports = level.down + std::ceil(level.down / level.oversubscription - 1e-9);
    if (spec.switch_ports > 0 && ports > spec.switch_ports)
      fail(spec.fabric_place, fmt::format("level {}: {} ports down at {}:1 and {} up, but the switch has {}", l,
                                          level.down, level.oversubscription, ports - level.down, spec.switch_ports));
  }
}

ClosShape::ClosShape(const std::vector<FabricLevel>& levels, int hcas, bool must_be_whole, const Place& place) {
  constexpr int most_planes = 1 << 20;
  int below = hcas, planes = 1;
  for (std::size_t l = 0; l < levels.size() && below > 1; ++l) {
    const FabricLevel& level = levels[l];
    const double uplinks = level.down / level.oversubscription;
    const bool is_whole = std::abs(uplinks - std::round(uplinks)) < 1e-9 * uplinks && uplinks >= 1;
    groups_.push_back((below + level.down - 1) / level.down);
    if (must_be_whole && !is_whole && groups_.back() > 1)
      fail(place,
           fmt::format(
               "level {}: {} ports down at {}:1 make {:.4g} uplinks; switch by switch they must be a whole number", l,
               level.down, level.oversubscription, uplinks));
    down_.push_back(level.down);
    uplinks_.push_back(is_whole ? std::round(uplinks) : uplinks);
    planes_.push_back(planes);
    below = groups_.back();
    if (is_whole && below > 1) planes = static_cast<int>(std::min<double>(most_planes, planes * uplinks_.back()));
  }
  if (below > 1) {
    groups_.push_back(1);
    down_.push_back(below);
    planes_.push_back(planes);
    uplinks_.push_back(0);
  }
  if (must_be_whole) require_buildable(size(), "a folded Clos, switch by switch,", place);
}

BuildSize ClosShape::size() const {
  BuildSize all;
  for (int l = 0; l < levels(); ++l) {
    const double switches = static_cast<double>(groups(l)) * planes(l);
    all.devices += switches;
    all.cables += switches * uplinks(l);
  }
  return all;
}

std::string ClosShape::name(int level, int group, int plane) const {
  static constexpr const char* kGroups[] = {"leaf", "pod", "zone", "hall"};
  if (level == 0) return fmt::format("leaf{}", group);
  if (level + 1 == levels() && groups(level) == 1 && level > 0 && uplinks(level) == 0)
    return fmt::format("{}{}", level == 1 ? "spine" : "core", plane);
  return fmt::format("{}{}.{}", kGroups[level], group, plane);
}

std::vector<std::string> ClosShape::names() const {
  std::vector<std::string> all;
  for (int l = 0; l < levels(); ++l)
    for (int g = 0; g < groups(l); ++g)
      for (int p = 0; p < planes(l); ++p) all.push_back(name(l, g, p));
  return all;
}

std::vector<DeviceId> hcas_by_rail(const DeviceGraph& graph, const ClusterSpec& spec, int leaf_ports) {
  std::map<int, std::vector<DeviceId>> rails;
  for (const DeviceId hca : fabric_hcas(graph, spec)) rails[graph.devices()[hca].index].push_back(hca);
  const auto ports = static_cast<std::size_t>(leaf_ports);
  std::vector<DeviceId> order;
  for (const auto& [index, rail] : rails) {
    order.resize((order.size() + ports - 1) / ports * ports, -1);
    order.insert(order.end(), rail.begin(), rail.end());
  }
  return order;
}

}  // namespace trainyard
