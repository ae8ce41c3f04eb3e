#include "topologies/analysis/fabric_cuts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

namespace trainyard {
namespace {

using EndSet = std::vector<char>;  // by end

std::size_t members_of(const EndSet& set) { return static_cast<std::size_t>(std::count(set.begin(), set.end(), 1)); }

/// The ends in the order of their switches: neighbours on a grid, groups of a Clos or a dragonfly are consecutive.
std::vector<std::size_t> ends_by_switch(const FabricView& view) {
  std::vector<std::size_t> order(view.ends.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<DeviceId> at;
  for (const DeviceId end : view.ends) {
    const std::vector<LinkId> wires = view.links(end);
    at.push_back(wires.empty() ? -1 : view.graph.ends(wires.front()).to);
  }
  std::stable_sort(order.begin(), order.end(), [&at](std::size_t a, std::size_t b) { return at[a] < at[b]; });
  return order;
}

/// Halves by the order of the switches: the first half from several starting points, and every second block of a
/// size, which cuts a grid across each of its dimensions.
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

/// Neighbours, from one end alone to a half, in about forty sizes.
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

/// Ends at one switch with one rate are alike: halves are told apart by how many of each kind they have.
struct AlikeEnds {
  std::vector<std::vector<std::size_t>> kinds;
  explicit AlikeEnds(const FabricView& view) {
    std::map<std::tuple<DeviceId, double, std::size_t>, std::size_t> known;
    for (std::size_t i = 0; i < view.ends.size(); ++i) {
      const std::vector<LinkId> wires = view.links(view.ends[i]);
      const bool single = wires.size() == 1;
      const auto [at, fresh] = known.try_emplace(
          {single ? view.graph.ends(wires[0]).to : -1, single ? view.capacity(wires[0]) : 0.0, single ? 0 : i},
          kinds.size());
      if (fresh) kinds.emplace_back();
      kinds[at->second].push_back(i);
    }
  }
  /// Ways to choose `count` of the kinds from `first` on; stops counting at `most`.
  std::size_t ways(std::size_t first, std::size_t count, std::size_t most) const {
    std::vector<std::size_t> of(count + 1, 0);
    of[0] = 1;
    for (std::size_t k = first; k < kinds.size(); ++k) {
      std::vector<std::size_t> next(count + 1, 0);
      for (std::size_t c = 0; c <= count; ++c)
        for (std::size_t j = 0; j <= std::min(c, kinds[k].size()); ++j) next[c] = std::min(most, next[c] + of[c - j]);
      of = std::move(next);
    }
    return of[count];
  }
};

/// The least cut of all sets of `count` ends that begin with `set`.
void try_all(FabricCuts& cuts, const AlikeEnds& alike, std::size_t kind, std::size_t count, EndSet& set,
             double& least) {
  if (count == 0) {
    least = std::min(least, cuts.capacity(set));
    return;
  }
  if (kind == alike.kinds.size()) return;
  const std::vector<std::size_t>& ends = alike.kinds[kind];
  for (std::size_t taken = 0; taken <= std::min(count, ends.size()); ++taken) {
    if (taken > 0) set[ends[taken - 1]] = 1;
    try_all(cuts, alike, kind + 1, count - taken, set, least);
  }
  for (const std::size_t end : ends) set[end] = 0;
}

/// Each of a half sends as much to each of the other: what of that the links certainly carry.
double bisection_of_uniform(const FabricView& view, const PairLoads& loads) {
  const std::size_t half = view.ends.size() / 2, rest = view.ends.size() - half;
  double each = std::numeric_limits<double>::infinity();
  for (std::size_t l = 0; l < loads.size(); ++l)
    if (loads[l] > 0) each = std::min(each, view.capacity(static_cast<LinkId>(l)) / loads[l]);
  // An end's own wire carries its part of this matrix only, less than of all pairs.
  for (const DeviceId end : view.ends) each = std::min(each, view.rate(end) / static_cast<double>(rest));
  return each * static_cast<double>(half * rest);
}

}  // namespace

FabricCuts::FabricCuts(const FabricView& view) : view_(view), flow_(static_cast<int>(view.graph.devices().size()) + 2) {
  source_ = static_cast<int>(view.graph.devices().size());
  sink_ = source_ + 1;
  std::map<LinkId, int> media;  // the vertex before each
  for (DeviceId d = 0; d < source_; ++d) {
    if (!view.inside(d)) continue;
    for (const LinkId wire : view.links(d)) {
      const DeviceId to = view.graph.ends(wire).to;
      const LinkId medium = view.graph.medium(wire);
      if (medium < 0 || view.half_duplex(wire)) {
        flow_.add_arc(d, to, view.capacity(wire));
        continue;
      }
      const auto [at, fresh] = media.try_emplace(medium, 0);
      if (fresh) {
        at->second = flow_.add_vertex();
        flow_.add_arc(at->second, to, view.capacity(medium));
      }
      flow_.add_arc(d, at->second, view.capacity(wire));
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
    double inside = 0, outside = 0;
    for (std::size_t i = 0; i < set.size(); ++i) (set[i] ? inside : outside) += rates[i];
    const double carried = cuts.capacity(set), sent = std::min(inside, outside);
    if (sent <= carried * worst) continue;
    worst = sent / carried;
    const auto first = static_cast<std::size_t>(std::find(set.begin(), set.end(), 1) - set.begin());
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
  for (const EndSet& set : structured_halves(view)) found.rate = std::min(found.rate, cuts.capacity(set));
  double proved = 0;
  for (const PairLoads& of : loads)
    if (!of.empty()) proved = std::max(proved, bisection_of_uniform(view, of));
  found.exact = found.rate <= proved * (1 + kRateTolerance);
  const AlikeEnds alike(view);
  if (found.exact || alike.ways(0, half, kMostHalves) >= kMostHalves) return found;
  EndSet set(view.ends.size(), 0);
  try_all(cuts, alike, 0, half, set, found.rate);
  found.exact = true;
  return found;
}

}  // namespace trainyard
