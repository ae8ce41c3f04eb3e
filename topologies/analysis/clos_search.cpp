#include "topologies/analysis/clos_search.hpp"

namespace trainyard {

std::int64_t most_hosts_of_leaf(std::int64_t ports, double r) {
  std::int64_t most = 0;
  for (std::int64_t hosts = 1; hosts < ports; ++hosts)
    if (hosts + divide_links(static_cast<double>(hosts), r) <= ports) most = hosts;
  return most;
}

bool better(const ClosDesign& a, const std::optional<ClosDesign>& b) {
  if (!b) return true;
  if (a.switches != b->switches) return a.switches < b->switches;
  if (a.levels.size() != b->levels.size()) return a.levels.size() < b->levels.size();
  return a.links < b->links;
}

void total_parts(ClosDesign& design, const ClosRequest& request) {
  design.hosts = request.hosts;
  design.switches = 0;
  for (const ClosLevel& level : design.levels) design.switches += level.switches;
  design.ports_left = design.switches * request.ports - design.hosts - 2 * design.links;
}

}  // namespace trainyard
