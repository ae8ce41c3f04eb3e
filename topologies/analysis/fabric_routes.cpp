#include "topologies/analysis/fabric_routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>

#include "sim/error.hpp"
#include "sim/process/job.hpp"
#include "topologies/analysis/fabric_tree.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostUses = 20'000'000;  // number of links of all paths: 80 MB

/// The paths of all ordered pairs of ends, by link.
class PairsOfLinks {
 public:
  PairsOfLinks(DeviceGraph& graph, const FabricView& view, RoutedFabric& out)
      : view_(view), n_(view.ends.size()), pairs_(graph.links().size()) {
    // If they are equal up to rounding, one figure is used, so that flows are integer multiples of it.
    const bool equal = view.equal_rates();
    for (const DeviceId end : view.ends) rates_.push_back(view.rate(equal ? view.ends.front() : end));
    for (std::size_t a = 0; a < n_; ++a) {
      end_if_interrupted();
      for (std::size_t b = 0; b < n_; ++b)
        if (a != b) add(graph, a, b, out);
    }
  }

  /// Finds the link with the largest overload by any matrix, and the pairs of that matrix that cross it. The sources
  /// and the targets of a link bound the rate of its pairs; therefore most links need no flow.
  void find_worst(RoutedFabric& out) const {
    std::vector<std::pair<double, LinkId>> bounds;
    for (LinkId l = 0; l < static_cast<LinkId>(pairs_.size()); ++l)
      if (const double most = bound(l) / view_.capacity(l); most > 1 + kRateTolerance) bounds.emplace_back(-most, l);
    std::ranges::sort(bounds);
    double worst = 1 + kRateTolerance;
    LinkId link = -1;
    for (const auto& [most, l] : bounds) {
      if (-most <= worst) break;
      end_if_interrupted();
      const double load = matching(l, nullptr) / view_.capacity(l);
      if (load <= worst * (1 + kRateTolerance)) continue;
      worst = load;
      link = l;
    }
    if (link < 0) {
      out.check.nonblocking = Nonblocking::yes;
      out.check.reason = "no permutation puts more on any link than it carries";
      return;
    }
    std::vector<HcaPair> pairs;
    const double sent = matching(link, &pairs);
    refute(out, view_, link, sent, std::move(pairs));
  }

  static void refute(RoutedFabric& out, const FabricView& view, LinkId link, double sent, std::vector<HcaPair> pairs) {
    const std::string& name = view.graph.links()[link].name;
    out.worst = link;
    out.check.nonblocking = Nonblocking::no;
    out.check.counterexample.reset();
    out.check.reason = fmt::format("{} carries {}, but {} can send {} over it at once", name,
                                   show(BytesPerSecond{view.capacity(link)}), counted_noun(pairs.size(), "pair"),
                                   show(BytesPerSecond{sent}));
    if (!view.equal_rates()) return;
    BlockedPattern& pattern = out.check.counterexample.emplace();
    pattern.pairs = std::move(pairs);
    pattern.link = name;
    if (view.graph.is_wire(link)) {
      pattern.below = view.graph.ends(link).from;
      pattern.above = view.graph.ends(link).to;
    }
  }

 private:
  const FabricView& view_;
  std::size_t n_;
  std::vector<double> rates_;
  std::vector<std::vector<std::uint32_t>> pairs_;  // indexed by link: from · ends + to

  void add(DeviceGraph& graph, std::size_t a, std::size_t b, RoutedFabric& out) {
    const auto path = graph.path(view_.ends[a], view_.ends[b], PathClass::fabric);
    if (!path) {
      out.unreachable = view_.name(view_.ends[b]);
      return;
    }
    Picoseconds latency;
    const auto pair = static_cast<std::uint32_t>(a * n_ + b);
    for (const LinkId link : graph.with_media(*path)) pairs_[link].push_back(pair);
    for (const LinkId wire : *path) {
      latency += graph.ends(wire).latency;
      if (view_.is_end(graph.ends(wire).from) || view_.is_end(graph.ends(wire).to)) continue;
      ++out.loads[wire];
      if (const LinkId medium = graph.medium(wire); medium >= 0) ++out.loads[medium];
    }
    out.hops = std::max(out.hops, static_cast<int>(path->size()));
    out.latency = std::max(out.latency, latency);
  }

  double bound(LinkId link) const {
    std::vector<char> from(n_, 0), to(n_, 0);
    for (const std::uint32_t pair : pairs_[link]) from[pair / n_] = to[pair % n_] = 1;
    double sources = 0, targets = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      sources += from[i] ? rates_[i] : 0;
      targets += to[i] ? rates_[i] : 0;
    }
    return std::min(sources, targets);
  }

  /// The largest rate at which pairs that cross the link send together, with no end above its rate. `chosen`: those
  /// pairs.
  double matching(LinkId link, std::vector<HcaPair>* chosen) const {
    const auto n = static_cast<int>(n_);
    MaxFlow flow(2 * n + 2);
    for (int i = 0; i < n; ++i) {
      flow.add_arc(2 * n, i, rates_[i]);
      flow.add_arc(n + i, 2 * n + 1, rates_[i]);
    }
    std::vector<int> arcs;
    const std::vector<std::uint32_t>& pairs = pairs_[link];
    for (const std::uint32_t pair : pairs) {
      const std::size_t from = pair / n_, to = pair % n_;
      arcs.push_back(
          flow.add_arc(static_cast<int>(from), n + static_cast<int>(to), std::min(rates_[from], rates_[to])));
    }
    const double sent = flow.run(2 * n, 2 * n + 1);
    for (std::size_t i = 0; chosen && i < pairs.size(); ++i)
      if (flow.flow(arcs[i]) > sent * kRateTolerance)
        chosen->push_back({view_.ends[pairs[i] / n_], view_.ends[pairs[i] % n_]});
    return sent;
  }
};

/// Permutations to test: shifts, the reversal, transposes (rows and columns of the ends exchanged) and random ones.
std::vector<std::vector<std::size_t>> permutations(std::size_t n) {
  constexpr std::size_t kMostMessages = 1 << 20, kRandom = 8;
  std::vector<std::vector<std::size_t>> all;
  const auto add = [&](auto to) {
    std::vector<std::size_t>& permutation = all.emplace_back(n);
    for (std::size_t i = 0; i < n; ++i) permutation[i] = to(i);
  };
  add([n](std::size_t i) { return (i + n / 2) % n; });
  add([n](std::size_t i) { return n - 1 - i; });
  for (std::size_t rows = 2; rows * rows <= n; ++rows)
    if (n % rows == 0 && (rows & (rows - 1)) == 0)
      add([n, rows](std::size_t i) { return i % rows * (n / rows) + i / rows; });
  for (std::size_t shift = 1; shift < n / 2; shift *= 2) add([n, shift](std::size_t i) { return (i + shift) % n; });
  if (n > 3) add([n](std::size_t i) { return (i + n / 2 - 1) % n; });
  std::mt19937_64 random(1);
  for (std::size_t r = 0; r < kRandom; ++r) {
    add([](std::size_t i) { return i; });
    // std::shuffle differs between libraries; this does not.
    for (std::size_t i = n; i-- > 1;) std::swap(all.back()[i], all.back()[random() % (i + 1)]);
  }
  all.resize(std::min(all.size(), std::max<std::size_t>(4, kMostMessages / n)));
  return all;
}

/// Finds the link that the tested permutations overload most.
void search_worst(DeviceGraph& graph, const FabricView& view, RoutedFabric& out) {
  double worst = 1 + kRateTolerance;
  const auto all = permutations(view.ends.size());
  for (const std::vector<std::size_t>& to : all) {
    end_if_interrupted();
    std::map<LinkId, std::vector<HcaPair>> crossing;
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (to[i] == i) continue;
      const HcaPair pair{view.ends[i], view.ends[to[i]]};
      const auto path = graph.path(pair.from, pair.to, PathClass::fabric);
      if (!path) {
        out.unreachable = view.name(pair.to);
        return;
      }
      for (const LinkId link : graph.with_media(*path)) crossing[link].push_back(pair);
    }
    for (auto& [link, pairs] : crossing) {
      double sent = 0;
      for (const HcaPair& pair : pairs) sent += std::min(view.rate(pair.from), view.rate(pair.to));
      if (sent / view.capacity(link) <= worst * (1 + kRateTolerance)) continue;
      worst = sent / view.capacity(link);
      PairsOfLinks::refute(out, view, link, sent, pairs);
    }
  }
  if (out.check.nonblocking == Nonblocking::unknown)
    out.check.reason =
        fmt::format("none of {} permutations overloads a link; there are too many pairs to check them all", all.size());
}

/// Estimates from a sample of pairs whether the paths have too many links to be stored.
bool too_many_uses(DeviceGraph& graph, const FabricView& view) {
  const std::size_t n = view.ends.size(), step = std::max<std::size_t>(1, n / 32);
  if (n > kMostRoutedEnds) return true;
  std::size_t uses = 0, paths = 0;
  for (std::size_t a = 0; a < n; a += step)
    for (std::size_t b = 0; b < n; b += step, ++paths)
      if (const auto path = graph.path(view.ends[a], view.ends[b], PathClass::fabric)) uses += path->size();
  return uses * n / paths * n > kMostUses;
}

}  // namespace

RoutedFabric route_all(DeviceGraph& graph, const FabricView& view) {
  if (graph.fabric_flows() > 1)
    throw UserError(
        "the check of routes follows one path for each pair of HCAs; expected a fabric with queue_pairs: 1");
  RoutedFabric out;
  if (too_many_uses(graph, view)) {
    search_worst(graph, view, out);
  } else {
    out.loads.assign(graph.links().size(), 0);
    const PairsOfLinks pairs(graph, view, out);
    if (out.unreachable.empty()) pairs.find_worst(out);
  }
  if (!out.check.counterexample) return out;
  // On every other link of their paths the pairs need a smaller share of the capacity: they all get an equal share of
  // this one.
  BlockedPattern& pattern = *out.check.counterexample;
  const auto path = graph.path(pattern.pairs.front().from, pattern.pairs.front().to, PathClass::fabric);
  pattern.slowdown = rate_alone(view, *path) * static_cast<double>(pattern.pairs.size()) / view.capacity(out.worst);
  return out;
}

}  // namespace trainyard
