#include "topologies/analysis/rings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/error.hpp"
#include "topologies/analysis/ring_search.hpp"

namespace trainyard {
namespace {

// A step takes a few hundred nanoseconds: both limits together stay well below a second.
constexpr std::int64_t kSearchSteps = 3'000'000, kSampleSteps = 1'500'000, kStepsOfSample = 5'000;

void check_links(const LinkGraph& graph) {
  if (graph.devices < 2 || graph.devices > kMostRingDevices)
    throw UserError(fmt::format("rings: {} devices, expected 2 to {}", graph.devices, kMostRingDevices));
  std::vector<std::vector<int>> count(static_cast<std::size_t>(graph.devices),
                                      std::vector<int>(static_cast<std::size_t>(graph.devices)));
  for (const LinkBundle& bundle : graph.bundles) {
    const auto [a, b] = std::minmax(bundle.a, bundle.b);
    const std::string name = fmt::format("rings: link {}-{}", bundle.a, bundle.b);
    for (const int device : {bundle.a, bundle.b})
      if (device < 0 || device >= graph.devices)
        throw UserError(fmt::format("{}: no device {}, they are 0 to {}", name, device, graph.devices - 1));
    if (a == b) throw UserError(name + ": a device cannot be linked to itself");
    if (bundle.links < 1 || bundle.links > kMostLinksOfPair)
      throw UserError(fmt::format("{}: {} links, expected 1 to {}", name, bundle.links, kMostLinksOfPair));
    if ((count[a][b] += bundle.links) > kMostLinksOfPair)
      throw UserError(fmt::format("{}: more than {} links in all", name, kMostLinksOfPair));
  }
}

/// The smallest of the bounds in the header.
struct RingBound {
  int weight = 0;
  std::uint32_t set = 0;  // the devices that give it, one bit each
  bool is_cut = true;
};

RingBound ring_bound(const LinkMatrix& links) {
  const int n = links.devices;
  const std::uint32_t sets = std::uint32_t{1} << n;
  std::vector<int> within(sets), degrees(sets);
  RingBound least{kMostLinksOfPair * n, 0, true};
  for (std::uint32_t set = 1; set < sets; ++set) {
    const int first = std::countr_zero(set);
    const std::uint32_t others = set & (set - 1);
    within[set] = within[others];
    degrees[set] = degrees[others];
    for (int b = 0; b < n; ++b) {
      degrees[set] += links.link_count(first, b);
      if (others >> b & 1U) within[set] += links.link_count(first, b);
    }
    const int size = std::popcount(set), hops_within = 2 * size - n;
    if (size < n && (degrees[set] - 2 * within[set]) / 2 < least.weight)
      least = {(degrees[set] - 2 * within[set]) / 2, set, true};
    if (hops_within > 0 && within[set] / hops_within < least.weight) least = {within[set] / hops_within, set, false};
  }
  return least;
}

/// Tightens the bound while it implies that not all links of some pair can be used: a ring takes at most one of them.
RingBound tight_ring_bound(LinkMatrix links) {
  RingBound bound = ring_bound(links);
  if (links.devices == 2) return bound;  // the exception: two parallel links
  for (bool fewer = true; fewer;) {
    fewer = false;
    for (auto& row : links.links)
      for (int& count : row)
        if (count > bound.weight) count = bound.weight, fewer = true;
    if (!fewer) break;
    const RingBound next = ring_bound(links);
    fewer = next.weight < bound.weight;
    if (fewer) bound = next;
  }
  return bound;
}

std::string devices_of(std::uint32_t set) {
  std::string text;
  for (; set != 0; set &= set - 1) text += fmt::format("{}{}", text.empty() ? "" : ", ", std::countr_zero(set));
  return text;
}

std::string why_none(const LinkMatrix& links, const RingBound& bound, bool complete) {
  if (bound.weight > 0)
    return complete ? "no ring passes through every device: all ways were tried"
                    : "no ring through every device was found within the limit of steps";
  const int size = std::popcount(bound.set);
  if (!bound.is_cut)
    return fmt::format("no ring passes through every device: devices {} have too few links among themselves",
                       devices_of(bound.set));
  int leaving = 0;
  for (int a = 0; a < links.devices; ++a)
    for (int b = 0; b < links.devices; ++b)
      if ((bound.set >> a & 1U) && !(bound.set >> b & 1U)) leaving += links.link_count(a, b);
  return fmt::format("no ring passes through every device: device{} {} {} {} to the others, a ring needs two",
                     size == 1 ? "" : "s", devices_of(bound.set), size == 1 ? "has" : "have",
                     leaving == 0 ? "no link" : "only one link");
}

std::optional<std::vector<Ring>> sampled_rings(const LinkMatrix& links, int weight, std::int64_t& steps) {
  std::mt19937 random(20081);  // any fixed seed: the answer must not change from run to run
  while (steps > 0) {
    std::int64_t steps_left = std::min(steps, kStepsOfSample);
    const std::int64_t steps_before = steps_left;
    auto rings = sample_rings(links, weight, steps_left, random);
    if (rings) return rings;
    steps -= std::max<std::int64_t>(1, steps_before - std::max<std::int64_t>(0, steps_left));
  }
  return std::nullopt;
}

/// Tries weights from the bound down, and takes the first weight for which there are rings.
void fill_rings(RingDecomposition& found, const LinkMatrix& links) {
  if (links.devices == 2) {  // two parallel links form a ring
    if (found.bound > 0) found.rings = {{{0, 1}, found.bound}};
    return;
  }
  std::int64_t steps_for_one = kSearchSteps;
  if (!search_rings(links, 1, steps_for_one) && steps_for_one >= 0) return;  // there is not a single ring
  const std::vector<Ring> greedy = greedy_rings(links, kStepsOfSample);
  int greedy_weight = 0;
  for (const Ring& ring : greedy) greedy_weight += ring.weight;
  std::int64_t search_left = kSearchSteps, sample_left = kSampleSteps;
  const auto complete_graph = complete_graph_rings(links);
  for (int weight = found.bound; weight >= std::max(1, greedy_weight); --weight) {
    // Spends a part of the remaining steps on each weight, so that some are left for the next.
    std::int64_t steps = search_left / 4;
    const std::int64_t steps_before = steps;
    auto rings = search_rings(links, weight, steps);
    search_left -= steps_before - std::max<std::int64_t>(0, steps);
    if (!rings && steps < 0) {
      found.complete = false;
      rings = complete_graph;
      if (!rings && weight == greedy_weight) rings = greedy;
      if (!rings) {
        std::int64_t samples = sample_left / 4;
        const std::int64_t given_samples = samples;
        rings = sampled_rings(links, weight, samples);
        sample_left -= given_samples - std::max<std::int64_t>(0, samples);
      }
    }
    if (!rings) continue;
    found.rings = std::move(*rings);
    return;
  }
}

}  // namespace

RingDecomposition decompose_rings(const LinkGraph& graph) {
  check_links(graph);
  const LinkMatrix links(graph);
  const RingBound bound = tight_ring_bound(links);
  RingDecomposition found;
  found.bound = bound.weight;
  fill_rings(found, links);
  for (const Ring& ring : found.rings) found.weight += ring.weight;
  found.unused_links = graph.links() - found.weight * graph.devices;
  if (found.complete) found.bound = found.weight;
  if (found.rings.empty()) found.none = why_none(links, bound, found.complete);
  return found;
}

}  // namespace trainyard
