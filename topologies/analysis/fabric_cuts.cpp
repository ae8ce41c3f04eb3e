#include "topologies/analysis/fabric_cuts.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "sim/index.hpp"
#include "sim/process/job.hpp"

namespace trainyard {

int MaxFlow::add_arc(int from, int to, double capacity) {
  arcs_.push_back({from, to, capacity, 0});
  return static_cast<int>(arcs_.size()) - 1;
}

double MaxFlow::run(int source, int sink) {
  // Integers leave no rounding residue: the algorithm takes every residue as a capacity.
  using Units = std::int64_t;
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::bidirectionalS>;
  using Edge = Traits::edge_descriptor;
  using Vertex = boost::property<
      boost::vertex_color_t, boost::default_color_type,
      boost::property<boost::vertex_distance_t, int, boost::property<boost::vertex_predecessor_t, Edge>>>;
  using Capacities = boost::property<
      boost::edge_capacity_t, Units,
      boost::property<boost::edge_residual_capacity_t, Units, boost::property<boost::edge_reverse_t, Edge>>>;
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Vertex, Capacities>;

  double sum = 0;
  for (const Arc& arc : arcs_) sum += arc.capacity;
  if (sum == 0) return 0;
  const double units = std::exp2(61 - std::ceil(std::log2(sum)));  // a power of two rounds no rate of whole bytes
  Graph graph(static_cast<std::size_t>(vertices_));
  const auto capacity = get(boost::edge_capacity, graph);
  const auto residual = get(boost::edge_residual_capacity, graph);
  const auto reverse = get(boost::edge_reverse, graph);
  std::vector<Edge> edges;
  for (const Arc& arc : arcs_) {
    const Edge forth = add_edge(arc.from, arc.to, graph).first, back = add_edge(arc.to, arc.from, graph).first;
    capacity[forth] = std::llround(arc.capacity * units);
    reverse[forth] = back;
    reverse[back] = forth;
    edges.push_back(forth);
  }
  const Units total = boost::boykov_kolmogorov_max_flow(graph, source, sink);
  for (std::size_t i = 0; i < arcs_.size(); ++i)
    arcs_[i].flow = static_cast<double>(capacity[edges[i]] - residual[edges[i]]) / units;
  return static_cast<double>(total) / units;
}

namespace {

using EndSet = std::vector<char>;  // a flag for each end

std::size_t members_of(const EndSet& set) { return static_cast<std::size_t>(std::ranges::count(set, 1)); }

/// The ends in the order of their switches: neighbours on a grid, groups of a Clos or a dragonfly are consecutive.
std::vector<std::size_t> ends_by_switch(const FabricView& view) {
  std::vector<std::size_t> order = consecutive_numbers(std::size_t{0}, view.ends.size());
  std::vector<DeviceId> switch_of_end;
  for (const DeviceId end : view.ends) {
    const std::vector<LinkId> wires = view.links(end);
    switch_of_end.push_back(wires.empty() ? -1 : view.graph.ends(wires.front()).to);
  }
  std::ranges::stable_sort(
      order, [&switch_of_end](std::size_t a, std::size_t b) { return switch_of_end[a] < switch_of_end[b]; });
  return order;
}

/// Halves of the ends in the order of their switches: the first half from several starting points, and every second
/// block of a size, which cuts a grid across each of its dimensions.
std::vector<EndSet> structured_halves(const FabricView& view) {
  const std::vector<std::size_t> order = ends_by_switch(view);
  const std::size_t n = order.size(), half = n / 2;
  std::vector<EndSet> sets;
  constexpr std::size_t kStarts = 8;
  for (std::size_t s = 0; s < std::min(kStarts, n); ++s) {
    EndSet set(n, 0);
    for (std::size_t i = 0; i < half; ++i) set[order[(s * half / kStarts + i) % n]] = 1;
    sets.push_back(std::move(set));
  }
  for (std::size_t block = 1; block < half; ++block) {
    if (n % (2 * block) != 0) continue;
    EndSet set(n, 0);
    for (std::size_t i = 0; i < n; ++i) set[order[i]] = i / block % 2 == 0;
    sets.push_back(std::move(set));
  }
  return sets;
}

/// Sets of neighbours, from a single end to a half, in about forty sizes.
std::vector<EndSet> structured_parts(const FabricView& view) {
  const std::vector<std::size_t> order = ends_by_switch(view);
  const std::size_t n = order.size(), step = std::max<std::size_t>(1, n / 80);
  std::vector<EndSet> sets;
  EndSet set(n, 0);
  for (std::size_t i = 0; i < n / 2; ++i) {
    set[order[i]] = 1;
    if ((i + 1) % step == 0) sets.push_back(set);
  }
  return sets;
}

/// Ends at the same switch with the same rate are equivalent: halves differ only by how many of each kind they contain.
struct AlikeEnds {
  std::vector<std::vector<std::size_t>> kinds;
  explicit AlikeEnds(const FabricView& view) {
    std::map<std::tuple<DeviceId, double, std::size_t>, std::size_t> kind_numbers;
    for (std::size_t i = 0; i < view.ends.size(); ++i) {
      const std::vector<LinkId> wires = view.links(view.ends[i]);
      const bool single = wires.size() == 1;
      const auto [entry, fresh] = kind_numbers.try_emplace(
          {single ? view.graph.ends(wires[0]).to : -1, single ? view.capacity(wires[0]) : 0.0, single ? 0 : i},
          kinds.size());
      if (fresh) kinds.emplace_back();
      kinds[entry->second].push_back(i);
    }
  }
  /// Number of ways to choose `count` ends of the kinds from `first` on; stops counting at `most`.
  std::size_t ways(std::size_t first, std::size_t count, std::size_t most) const {
    std::vector<std::size_t> ways_of_count(count + 1, 0);
    ways_of_count[0] = 1;
    for (std::size_t k = first; k < kinds.size(); ++k) {
      std::vector<std::size_t> next(count + 1, 0);
      for (std::size_t c = 0; c <= count; ++c)
        for (std::size_t j = 0; j <= std::min(c, kinds[k].size()); ++j)
          next[c] = std::min(most, next[c] + ways_of_count[c - j]);
      ways_of_count = std::move(next);
    }
    return ways_of_count[count];
  }
};

/// Minimises `least` over the cuts of all sets of `count` ends that contain `set`.
void try_all(FabricCuts& cuts, const AlikeEnds& alike, std::size_t kind, std::size_t count, EndSet& set,
             double& least) {
  if (count == 0) {
    least = std::min(least, cuts.capacity(set));
    return;
  }
  if (kind == alike.kinds.size()) return;
  const std::vector<std::size_t>& ends = alike.kinds[kind];
  for (std::size_t chosen = 0; chosen <= std::min(count, ends.size()); ++chosen) {
    if (chosen > 0) set[ends[chosen - 1]] = 1;
    try_all(cuts, alike, kind + 1, count - chosen, set, least);
  }
  for (const std::size_t end : ends) set[end] = 0;
}

/// Rate that the links certainly carry if each end of one half sends the same to each end of the other half.
double bisection_of_uniform(const FabricView& view, const PairLoads& loads) {
  const std::size_t half = view.ends.size() / 2, rest = view.ends.size() - half;
  double pair_rate = std::numeric_limits<double>::infinity();
  for (std::size_t l = 0; l < loads.size(); ++l)
    if (loads[l] > 0) pair_rate = std::min(pair_rate, view.capacity(static_cast<LinkId>(l)) / loads[l]);
  // An end's own wire carries only its part of this matrix, which is less than its part of all pairs.
  for (const DeviceId end : view.ends) pair_rate = std::min(pair_rate, view.rate(end) / static_cast<double>(rest));
  return pair_rate * static_cast<double>(half * rest);
}

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
  std::ranges::reverse(paths.farthest_first);
  return paths;
}

/// Sends one unit from `source` and splits it at each device by the rates of the wires that lead nearer.
void spread(const FabricView& view, const std::vector<std::vector<LinkId>>& wires, const PathsTo& paths,
            DeviceId source, std::vector<double>& units, std::vector<double>& on_wire) {
  std::ranges::fill(units, 0);
  std::ranges::fill(on_wire, 0);
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

FabricCuts::FabricCuts(const FabricView& view) : view_(view), flow_(static_cast<int>(view.graph.devices().size()) + 2) {
  source_ = static_cast<int>(view.graph.devices().size());
  sink_ = source_ + 1;
  std::map<LinkId, int> media;  // the vertex before each medium
  for (DeviceId d = 0; d < source_; ++d) {
    if (!view.contains(d)) continue;
    for (const LinkId wire : view.links(d)) {
      const DeviceId to = view.graph.ends(wire).to;
      const LinkId medium = view.graph.medium(wire);
      if (medium < 0 || view.half_duplex(wire)) {
        flow_.add_arc(d, to, view.capacity(wire));
        continue;
      }
      const auto [entry, fresh] = media.try_emplace(medium, 0);
      if (fresh) {
        entry->second = flow_.add_vertex();
        flow_.add_arc(entry->second, to, view.capacity(medium));
      }
      flow_.add_arc(d, entry->second, view.capacity(wire));
    }
  }
  for (const DeviceId end : view.ends) {
    from_source_.push_back(flow_.add_arc(source_, end, 0));
    to_sink_.push_back(flow_.add_arc(end, sink_, 0));
  }
}

double FabricCuts::capacity(const EndSet& chosen) {
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const double never_the_limit = 2 * view_.rate(view_.ends[i]);
    flow_.set_capacity(from_source_[i], chosen[i] ? never_the_limit : 0);
    flow_.set_capacity(to_sink_[i], chosen[i] ? 0 : never_the_limit);
  }
  return flow_.run(source_, sink_);
}

std::string overloaded_cut(const FabricView& view) {
  FabricCuts cuts(view);
  std::vector<double> rates;
  for (const DeviceId end : view.ends) rates.push_back(view.rate(end));
  std::vector<EndSet> sets = structured_parts(view);
  for (EndSet& half : structured_halves(view)) sets.push_back(std::move(half));
  double worst = 1 + kRateTolerance;
  std::string text;
  for (const EndSet& set : sets) {
    end_if_interrupted();
    double inside = 0, outside = 0;
    for (std::size_t i = 0; i < set.size(); ++i) (set[i] ? inside : outside) += rates[i];
    const double carried = cuts.capacity(set), sent = std::min(inside, outside);
    if (sent <= carried * worst) continue;
    worst = sent / carried;
    const auto first = static_cast<std::size_t>(std::ranges::find(set, 1) - set.begin());
    const std::size_t n = members_of(set);
    text = fmt::format("the links out of {}{} carry {}, but {} can send {} over them", view.name(view.ends[first]),
                       n > 1 ? fmt::format(" and {} others", n - 1) : "", show(BytesPerSecond{carried}),
                       n > 1 ? "they" : "it", show(BytesPerSecond{sent}));
  }
  return text;
}

Bisection bisection_of(const FabricView& view, const std::vector<PairLoads>& loads) {
  constexpr std::size_t kMostHalves = 8000;
  const std::size_t half = view.ends.size() / 2;
  FabricCuts cuts(view);
  Bisection found{std::numeric_limits<double>::infinity()};
  for (const EndSet& set : structured_halves(view)) {
    end_if_interrupted();
    found.rate = std::min(found.rate, cuts.capacity(set));
  }
  double proved = 0;
  for (const PairLoads& pair_loads : loads)
    if (!pair_loads.empty()) proved = std::max(proved, bisection_of_uniform(view, pair_loads));
  found.exact = found.rate <= proved * (1 + kRateTolerance);
  const AlikeEnds alike(view);
  if (found.exact || alike.ways(0, half, kMostHalves) >= kMostHalves) return found;
  EndSet set(view.ends.size(), 0);
  try_all(cuts, alike, 0, half, set, found.rate);
  found.exact = true;
  return found;
}

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
    end_if_interrupted();
    const PathsTo paths = paths_to(view, wires, target.device);
    std::ranges::fill(most, 0);
    std::ranges::fill(from_all, 0);
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
