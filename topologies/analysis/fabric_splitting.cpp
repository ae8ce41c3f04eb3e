#include <algorithm>
#include <deque>
#include <map>
#include <span>

#include "topologies/analysis/fabric_cuts.hpp"

namespace trainyard {
namespace {

/// A switch with ends (or an end with several wires of its own), and the rate at which these ends send.
struct Terminal {
  DeviceId device = 0;
  double rate = 0;  // bytes/s
  double ends = 0;
};

std::vector<Terminal> terminals_of(const FabricView& view) {
  std::map<DeviceId, Terminal> found;
  for (const DeviceId end : view.ends) {
    const std::vector<LinkId> wires = view.links(end);
    const DeviceId device = wires.size() == 1 ? view.graph.ends(wires[0]).to : end;
    Terminal& terminal = found[device];
    terminal.device = device;
    terminal.rate += view.rate(end);
    ++terminal.ends;
  }
  std::vector<Terminal> all;
  for (const auto& [device, terminal] : found) all.push_back(terminal);
  return all;
}

/// All shortest paths to one device.
struct PathsTo {
  std::vector<int> distance;             // indexed by device; −1: no path
  std::vector<DeviceId> farthest_first;  // devices that have a path
};
PathsTo paths_to(const FabricView& view, const std::vector<std::vector<LinkId>>& wires, DeviceId target) {
  PathsTo paths{std::vector<int>(view.graph.devices().size(), -1), {}};
  paths.distance[target] = 0;
  std::deque<DeviceId> row{target};
  for (; !row.empty(); row.pop_front()) {
    paths.farthest_first.push_back(row.front());
    for (const LinkId wire : wires[row.front()]) {
      const DeviceId from = view.graph.ends(wire).to;  // wires go both ways
      int& distance = paths.distance[from];
      if (distance >= 0 || !view.graph.is_up(wire ^ 1)) continue;
      distance = paths.distance[row.front()] + 1;
      row.push_back(from);
    }
  }
  std::reverse(paths.farthest_first.begin(), paths.farthest_first.end());
  return paths;
}

/// Sends one unit from `source` and splits it at each device by the rates of the wires that lead nearer.
void spread(const FabricView& view, const std::vector<std::vector<LinkId>>& wires, const PathsTo& paths,
            DeviceId source, std::vector<double>& units, std::vector<double>& on_wire) {
  std::fill(units.begin(), units.end(), 0);
  std::fill(on_wire.begin(), on_wire.end(), 0);
  units[source] = 1;
  for (const DeviceId device : paths.farthest_first) {
    const double share = units[device];
    if (share <= 0) continue;
    const auto nearer = [&](LinkId wire) {
      const int next = paths.distance[view.graph.ends(wire).to];
      return next >= 0 && next + 1 == paths.distance[device];
    };
    double rates = 0;
    for (const LinkId wire : wires[device]) rates += nearer(wire) ? view.capacity(wire) : 0;
    for (const LinkId wire : wires[device]) {
      if (!nearer(wire)) continue;
      on_wire[wire] = share * view.capacity(wire) / rates;
      units[view.graph.ends(wire).to] += on_wire[wire];
    }
  }
}

/// Upper bounds of the traffic on a wire, from the view of the sources and of the targets.
struct HoseBound {
  std::vector<double> of_targets;               // indexed by wire: sum over targets of the largest share of any source
  std::vector<std::vector<double>> of_sources;  // indexed by source and wire: the largest share to any target
};

bool fits(const FabricView& view, const std::vector<Terminal>& terminals, const HoseBound& bound) {
  std::vector<double> load(view.graph.links().size(), 0);
  for (std::size_t w = 0; w < bound.of_targets.size(); ++w) {
    double of_sources = 0;
    for (std::size_t s = 0; s < terminals.size(); ++s) of_sources += terminals[s].rate * bound.of_sources[s][w];
    load[w] = std::min(of_sources, bound.of_targets[w]);
    const LinkId medium = view.graph.medium(static_cast<LinkId>(w));
    if (medium >= 0) load[medium] += load[w];
  }
  for (std::size_t l = 0; l < load.size(); ++l)
    if (load[l] > view.capacity(static_cast<LinkId>(l)) * (1 + kRateTolerance)) return false;
  return true;
}

/// Adds upper bounds of the loads if one half of the ends sends one byte/s to each end of the other half. A terminal
/// with `ends` ends loads a wire by at most `all` (its load if it sends to all ends), and by at most `most` (its
/// largest share to one end) for each end of the other half. The same bound holds for a terminal that receives.
void add_half_loads(std::vector<double>& loads, double ends, double other_half, std::span<const double> all,
                    std::span<const double> most) {
  for (std::size_t w = 0; w < all.size(); ++w) loads[w] += ends * std::min(all[w], other_half * most[w]);
}

void add_media(const FabricView& view, PairLoads& loads) {
  for (LinkId wire = 0; wire < static_cast<LinkId>(view.graph.wires().size()); ++wire)
    if (const LinkId medium = view.graph.medium(wire); medium >= 0) loads[medium] += loads[wire];
}

}  // namespace

IdealSplitting::IdealSplitting(const FabricView& view) {
  constexpr std::size_t kMostWork = 40'000'000;  // wires to visit: about a tenth of a second
  const std::vector<Terminal> terminals = terminals_of(view);
  const std::size_t all_wires = view.graph.wires().size();
  std::vector<std::vector<LinkId>> wires(view.graph.devices().size());
  std::size_t work = 0;
  for (DeviceId d = 0; d < static_cast<DeviceId>(wires.size()); ++d)
    if (view.contains(d)) work += (wires[d] = view.links(d)).size();
  work = (work + all_wires) * terminals.size() * terminals.size();
  if (work > kMostWork) return;
  decided_ = true;
  HoseBound bound{std::vector<double>(all_wires, 0),
                  std::vector<std::vector<double>>(terminals.size(), std::vector<double>(all_wires, 0))};
  loads_.assign(view.graph.links().size(), 0);
  half_loads_ = loads_;
  const auto other_half = static_cast<double>(view.ends.size() - view.ends.size() / 2);
  std::vector<std::vector<double>> to_all(terminals.size(),
                                          std::vector<double>(all_wires, 0));  // indexed by source and wire
  std::vector<double> units(wires.size()), on_wire(all_wires), most(all_wires), from_all(all_wires);
  PairLoads of_targets(loads_);
  for (const Terminal& target : terminals) {
    const PathsTo paths = paths_to(view, wires, target.device);
    std::fill(most.begin(), most.end(), 0);
    std::fill(from_all.begin(), from_all.end(), 0);
    for (std::size_t s = 0; s < terminals.size(); ++s) {
      if (terminals[s].device == target.device) continue;
      spread(view, wires, paths, terminals[s].device, units, on_wire);
      for (std::size_t w = 0; w < all_wires; ++w) {
        if (on_wire[w] <= 0) continue;
        most[w] = std::max(most[w], on_wire[w]);
        bound.of_sources[s][w] = std::max(bound.of_sources[s][w], on_wire[w]);
        loads_[w] += on_wire[w] * terminals[s].ends * target.ends;
        to_all[s][w] += on_wire[w] * target.ends;
        from_all[w] += on_wire[w] * terminals[s].ends;
      }
    }
    for (std::size_t w = 0; w < all_wires; ++w) bound.of_targets[w] += target.rate * most[w];
    add_half_loads(of_targets, target.ends, other_half, from_all, most);
  }
  for (std::size_t s = 0; s < terminals.size(); ++s)
    add_half_loads(half_loads_, terminals[s].ends, other_half, to_all[s], bound.of_sources[s]);
  for (std::size_t w = 0; w < all_wires; ++w) half_loads_[w] = std::min(half_loads_[w], of_targets[w]);
  add_media(view, loads_);
  add_media(view, half_loads_);
  everything_ = fits(view, terminals, bound);
}

bool carried_by_way_of_all(const FabricView& view, const PairLoads& loads) {
  if (loads.empty() || !view.equal_rates()) return false;
  const double to_each = view.rate(view.ends.front()) / static_cast<double>(view.ends.size());
  for (std::size_t l = 0; l < loads.size(); ++l)
    if (2 * to_each * loads[l] > view.capacity(static_cast<LinkId>(l)) * (1 + kRateTolerance)) return false;
  return true;
}

}  // namespace trainyard
