#include "topologies/analysis/cable_plan.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/error.hpp"

namespace trainyard {
namespace {

/// A place on the floor. Rack −1: a rack of its own, in the middle.
struct FloorPlace {
  std::int64_t rack = -1;
  double x = 0, y = 0, height = 0;
};

class CableCounter {
 public:
  CableCounter(const CabledNetwork& network, const FloorPlan& floor) : network_(network), floor_(floor) {
    plan_.racks = (network.hosts + floor.hosts_of_rack - 1) / floor.hosts_of_rack;
    plan_.rows = (plan_.racks + floor.racks_of_row - 1) / floor.racks_of_row;
    find_middle_hosts();
  }

  CablePlan make() {
    const std::int64_t leaves = network_.leaves;
    for (std::int64_t host = 0; host < network_.hosts; ++host)
      add(host_place(host), leaf_place(network_.leaf_of_host(host)), 1);
    if (network_.levels == 2) {
      for (std::int64_t leaf = 0; leaf < leaves; ++leaf)
        add(leaf_place(leaf), middle(), part(network_.links, leaf, leaves));
    } else if (network_.levels == 3) {
      const std::int64_t uplinks = network_.uplinks, to_cores = network_.links - leaves * uplinks;
      for (std::int64_t leaf = 0; leaf < leaves; ++leaf)
        add(leaf_place(leaf), pod_place(leaf * network_.pods / leaves), uplinks);
      for (std::int64_t pod = 0; pod < network_.pods; ++pod)
        add(pod_place(pod), middle(), part(to_cores, pod, network_.pods));
    }
    for (const auto& [length, count] : counts_) plan_.cables.push_back({length > floor_.copper_reach, length, count});
    return std::move(plan_);
  }

 private:
  const CabledNetwork& network_;
  const FloorPlan& floor_;
  CablePlan plan_;
  std::vector<std::int64_t> middle_hosts_;  // indexed by leaf
  std::map<double, std::int64_t> counts_;   // number of cables, by length

  void find_middle_hosts() {
    std::vector<std::int64_t> hosts(static_cast<std::size_t>(network_.leaves)), seen = hosts;
    const auto leaf_of = [this](std::int64_t host) { return static_cast<std::size_t>(network_.leaf_of_host(host)); };
    for (std::int64_t host = 0; host < network_.hosts; ++host) ++hosts[leaf_of(host)];
    middle_hosts_.resize(hosts.size());
    for (std::int64_t host = 0; host < network_.hosts; ++host)
      if (const std::size_t leaf = leaf_of(host); seen[leaf]++ == (hosts[leaf] - 1) / 2) middle_hosts_[leaf] = host;
  }

  /// The share of part `index` if `total` is divided into `parts` that differ by at most one.
  static std::int64_t part(std::int64_t total, std::int64_t index, std::int64_t parts) {
    return total * (index + 1) / parts - total * index / parts;
  }

  FloorPlace rack_place(std::int64_t rack, double height) const {
    return {rack, static_cast<double>(rack % floor_.racks_of_row) * floor_.rack_width,
            static_cast<double>(rack / floor_.racks_of_row) * floor_.row_pitch, height};
  }
  FloorPlace host_place(std::int64_t host) const {
    const auto above = static_cast<double>(host % floor_.hosts_of_rack) + 0.5;
    return rack_place(host / floor_.hosts_of_rack, floor_.rack_height * above / floor_.hosts_of_rack);
  }
  FloorPlace leaf_place(std::int64_t leaf) const {
    return rack_place(middle_hosts_[static_cast<std::size_t>(leaf)] / floor_.hosts_of_rack, floor_.rack_height);
  }
  FloorPlace pod_place(std::int64_t pod) const {
    const std::int64_t leaves = network_.leaves;
    return leaf_place((leaves * pod / network_.pods + leaves * (pod + 1) / network_.pods - 1) / 2);
  }
  FloorPlace middle() const {
    const std::int64_t of_row = std::min<std::int64_t>(plan_.racks, floor_.racks_of_row);
    return {-1, static_cast<double>(of_row - 1) / 2 * floor_.rack_width,
            static_cast<double>(plan_.rows - 1) / 2 * floor_.row_pitch, floor_.rack_height};
  }

  double length(const FloorPlace& a, const FloorPlace& b) const {
    if (a.rack >= 0 && a.rack == b.rack) return std::abs(a.height - b.height) + floor_.slack;
    return 2 * (floor_.rack_height + floor_.to_tray) - a.height - b.height + std::abs(a.x - b.x) + std::abs(a.y - b.y) +
           floor_.slack;
  }

  void add(const FloorPlace& a, const FloorPlace& b, std::int64_t count) {
    if (count == 0) return;
    const double needed = length(a, b) - 1e-9;  // tolerance for sums of tenths
    const auto sold_length = std::lower_bound(floor_.lengths.begin(), floor_.lengths.end(), needed);
    const double longest = floor_.lengths.back();
    counts_[sold_length != floor_.lengths.end() ? *sold_length : std::ceil(needed / longest) * longest] += count;
  }
};

}  // namespace

double CablePlan::metres(bool optical) const {
  double sum = 0;
  for (const CablesOfLength& c : cables)
    if (c.optical == optical) sum += c.length * static_cast<double>(c.count);
  return sum;
}

std::int64_t CablePlan::count(bool optical) const {
  std::int64_t sum = 0;
  for (const CablesOfLength& c : cables)
    if (c.optical == optical) sum += c.count;
  return sum;
}

CabledNetwork cabled_network(const ClosDesign& design) {
  CabledNetwork network;
  network.hosts = design.hosts;
  network.leaves = design.levels.front().switches;
  network.links = design.links;
  network.levels = static_cast<int>(design.levels.size());
  network.uplinks = design.levels.front().up;
  network.pods = design.pods;
  network.leaf_of_host = [&design](std::int64_t host) {
    return ((host + 1) * design.levels.front().switches - 1) / design.hosts;
  };
  return network;
}

CablePlan plan_cables(const CabledNetwork& network, const FloorPlan& floor) {
  if (floor.hosts_of_rack < 1 || floor.racks_of_row < 1)
    throw UserError("racks: expected at least 1 host in a rack and at least 1 rack in a row");
  const bool rising = std::ranges::is_sorted(floor.lengths);
  if (floor.lengths.empty() || floor.lengths.front() <= 0 || !rising)
    throw UserError("lengths of cables: expected ascending lengths above 0");
  return CableCounter(network, floor).make();
}

}  // namespace trainyard
