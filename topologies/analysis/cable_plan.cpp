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
  CableCounter(const ClosDesign& design, const FloorPlan& floor) : design_(design), floor_(floor) {
    plan_.racks = (design.hosts + floor.hosts_of_rack - 1) / floor.hosts_of_rack;
    plan_.rows = (plan_.racks + floor.racks_of_row - 1) / floor.racks_of_row;
  }

  CablePlan make() {
    const std::int64_t leaves = design_.levels.front().switches;
    for (std::int64_t leaf = 0; leaf < leaves; ++leaf) {
      const FloorPlace top = leaf_place(leaf);
      for (std::int64_t host = first_host(leaf); host < first_host(leaf + 1); ++host) add(host_place(host), top, 1);
    }
    if (design_.levels.size() == 2) {
      for (std::int64_t leaf = 0; leaf < leaves; ++leaf)
        add(leaf_place(leaf), middle(), part(design_.links, leaf, leaves));
    } else if (design_.levels.size() == 3) {
      const std::int64_t uplinks = design_.levels.front().up, to_cores = design_.links - leaves * uplinks;
      for (std::int64_t leaf = 0; leaf < leaves; ++leaf)
        add(leaf_place(leaf), pod_place(leaf * design_.pods / leaves), uplinks);
      for (std::int64_t pod = 0; pod < design_.pods; ++pod)
        add(pod_place(pod), middle(), part(to_cores, pod, design_.pods));
    }
    for (const auto& [length, count] : counts_) plan_.cables.push_back({length > floor_.copper_reach, length, count});
    return std::move(plan_);
  }

 private:
  const ClosDesign& design_;
  const FloorPlan& floor_;
  CablePlan plan_;
  std::map<double, std::int64_t> counts_;  // number of cables, by length

  /// The share of part `index` if `total` is divided into `parts` that differ by at most one.
  static std::int64_t part(std::int64_t total, std::int64_t index, std::int64_t parts) {
    return total * (index + 1) / parts - total * index / parts;
  }
  std::int64_t first_host(std::int64_t leaf) const { return design_.hosts * leaf / design_.levels.front().switches; }

  FloorPlace rack_place(std::int64_t rack, double height) const {
    return {rack, static_cast<double>(rack % floor_.racks_of_row) * floor_.rack_width,
            static_cast<double>(rack / floor_.racks_of_row) * floor_.row_pitch, height};
  }
  FloorPlace host_place(std::int64_t host) const {
    const auto above = static_cast<double>(host % floor_.hosts_of_rack) + 0.5;
    return rack_place(host / floor_.hosts_of_rack, floor_.rack_height * above / floor_.hosts_of_rack);
  }
  FloorPlace leaf_place(std::int64_t leaf) const {
    const std::int64_t host = (first_host(leaf) + first_host(leaf + 1) - 1) / 2;
    return rack_place(host / floor_.hosts_of_rack, floor_.rack_height);
  }
  FloorPlace pod_place(std::int64_t pod) const {
    const std::int64_t leaves = design_.levels.front().switches;
    return leaf_place((leaves * pod / design_.pods + leaves * (pod + 1) / design_.pods - 1) / 2);
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

CablePlan plan_cables(const ClosDesign& design, const FloorPlan& floor) {
  if (floor.hosts_of_rack < 1 || floor.racks_of_row < 1)
    throw UserError("racks: expected at least 1 host in a rack and at least 1 rack in a row");
  const bool rising = std::is_sorted(floor.lengths.begin(), floor.lengths.end());
  if (floor.lengths.empty() || floor.lengths.front() <= 0 || !rising)
    throw UserError("lengths of cables: expected ascending lengths above 0");
  return CableCounter(design, floor).make();
}

}  // namespace trainyard
