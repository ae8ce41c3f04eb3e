#include "topologies/analysis/ring_search.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "sim/index.hpp"

namespace trainyard {
namespace {

using Mask = std::uint32_t;

constexpr Mask bit_of(int device) { return Mask{1} << device; }

/// Returns true if everything in `all` can be reached within it.
bool connected(const std::vector<Mask>& neighbours, Mask all) {
  Mask seen = all & (~all + 1), fresh = seen;
  while (fresh != 0) {
    const int device = std::countr_zero(fresh);
    fresh &= fresh - 1;
    const Mask more = neighbours[device] & all & ~seen;
    seen |= more;
    fresh |= more;
  }
  return seen == all;
}

/// A necessary condition for a ring: connected, also after the loss of any one device.
bool two_connected(const std::vector<Mask>& neighbours) {
  const Mask all = bit_of(static_cast<int>(neighbours.size())) - 1;
  if (!connected(neighbours, all)) return false;
  for (std::size_t device = 0; device < neighbours.size(); ++device)
    if (!connected(neighbours, all & ~bit_of(static_cast<int>(device)))) return false;
  return true;
}

/// Enumerates the Hamiltonian rings of a simple graph, by depth-first search from device 0. A path is given up if the
/// devices that are not on it are not connected to its two ends, or if one of them has fewer than two neighbours that
/// can still be next to it on the ring.
class RingWalk {
 public:
  using Take = std::function<bool(const std::vector<int>&)>;  ///< returns true to stop: this ring is taken
  RingWalk(const std::vector<Mask>& neighbours, std::int64_t& steps)
      : neighbours_(neighbours), devices_(static_cast<int>(neighbours.size())), steps_(steps) {}

  /// Rings in lexicographic order, each towards its smaller neighbour, and only those after `after` (empty: all).
  bool all_after(const std::vector<int>& after, const Take& take) {
    after_ = after;
    take_ = &take;
    path_ = {0};
    return extend(bit_of(0), !after.empty());
  }
  /// Rings with neighbours in the order of `rank`, the smallest first. Each ring may come in both directions.
  bool all_ranked(const std::vector<int>& rank, const Take& take) {
    rank_ = rank;
    take_ = &take;
    path_ = {0};
    return extend(bit_of(0), false);
  }

 private:
  const std::vector<Mask>& neighbours_;
  const int devices_;
  std::int64_t& steps_;
  std::vector<int> after_, rank_, path_;
  const Take* take_ = nullptr;

  Mask near(int device) const { return neighbours_[device]; }

  bool hopeless(Mask visited, int end) const {
    const Mask all = bit_of(devices_) - 1, rest = all & ~visited;
    const Mask open = rest | bit_of(0) | bit_of(end);
    if (rank_.empty() && path_.size() > 1) {
      // The last device of the ring must be greater than the second, so that each ring comes in one direction only.
      const Mask greater = rest & ~(bit_of(path_[1] + 1) - 1);
      if ((near(0) & greater) == 0) return true;
    } else if ((near(0) & rest) == 0) {
      return true;
    }
    for (Mask left = rest; left != 0; left &= left - 1)
      if (std::popcount(near(std::countr_zero(left)) & open) < 2) return true;
    return (near(end) & rest) == 0 || !connected(neighbours_, rest);
  }

  /// `tight`: so far the path equals the beginning of `after_`.
  bool extend(Mask visited, bool tight) {
    if (--steps_ < 0) return false;
    const int end = path_.back();
    if (static_cast<int>(path_.size()) == devices_) {
      const bool closed = (near(end) & bit_of(0)) != 0;
      const bool forwards = !rank_.empty() || path_[1] < end;
      return closed && forwards && !tight && (*take_)(path_);
    }
    if (hopeless(visited, end)) return false;
    for (const int next : candidates(near(end) & ~visited)) {
      const int least = tight ? after_[path_.size()] : 0;
      if (next < least) continue;
      path_.push_back(next);
      if (extend(visited | bit_of(next), tight && next == least)) return true;
      path_.pop_back();
      if (steps_ < 0) return false;
    }
    return false;
  }

  std::vector<int> candidates(Mask from) const {
    std::vector<int> devices;
    for (; from != 0; from &= from - 1) devices.push_back(std::countr_zero(from));
    if (!rank_.empty()) std::ranges::sort(devices, [this](int a, int b) { return rank_[a] < rank_[b]; });
    return devices;
  }
};

/// Searches ring by ring with backtracking: the heaviest ring that leaves enough for the others, then the next.
class OrderedSearch {
 public:
  OrderedSearch(const LinkMatrix& links, std::int64_t& steps) : left_(links), steps_(steps) {}

  bool find(int weight, int heaviest, const std::vector<int>& after) {
    if (weight == 0) return true;
    for (int w = std::min(weight, heaviest); w >= 1; --w) {
      const std::vector<Mask> neighbours = left_.neighbours(w);
      if (!two_connected(neighbours)) continue;
      RingWalk walk(neighbours, steps_);
      const std::vector<int> none;
      // Rings of equal weight are a set: each must come after the previous one.
      if (walk.all_after(w == heaviest ? after : none,
                         [&](const std::vector<int>& order) { return accept(order, w, weight); }))
        return true;
      if (steps_ < 0) return false;
    }
    return false;
  }
  std::vector<Ring> rings;

 private:
  LinkMatrix left_;
  std::int64_t& steps_;

  bool accept(const std::vector<int>& order, int w, int weight) {
    left_.add(order, -w);
    rings.push_back({order, w});
    const bool hopeful = weight == w || two_connected(left_.neighbours(1));
    if (hopeful && find(weight - w, w, order)) return true;
    rings.pop_back();
    left_.add(order, w);
    return false;
  }
};

/// Merges rings of the same order. Each ring goes towards its smaller neighbour; the heaviest comes first.
std::vector<Ring> merge_and_sort(std::vector<Ring> rings) {
  for (Ring& ring : rings)
    if (ring.order[1] > ring.order.back()) std::reverse(ring.order.begin() + 1, ring.order.end());
  std::ranges::sort(rings, [](const Ring& a, const Ring& b) { return a.order < b.order; });
  std::vector<Ring> merged;
  for (Ring& ring : rings) {
    if (!merged.empty() && merged.back().order == ring.order)
      merged.back().weight += ring.weight;
    else
      merged.push_back(std::move(ring));
  }
  std::ranges::stable_sort(merged, [](const Ring& a, const Ring& b) { return a.weight > b.weight; });
  return merged;
}

/// Walecki's construction: device 0 is the fixed point, and device i + 1 the residue i of n − 1. The ring is the
/// rotated zigzag i, i+1, i−1, i+2, … and returns over the fixed point.
std::vector<int> zigzag(int devices, int turn) {
  const int circle = devices - 1;
  std::vector<int> order{0};
  for (int k = 0; k < circle; ++k) {
    const int step = k % 2 == 1 ? (k + 1) / 2 : circle - k / 2;
    order.push_back((turn + step) % circle + 1);
  }
  return order;
}

}  // namespace

LinkMatrix::LinkMatrix(const LinkGraph& graph) : devices(graph.devices) {
  for (const LinkBundle& bundle : graph.bundles) {
    links[bundle.a][bundle.b] += bundle.links;
    links[bundle.b][bundle.a] += bundle.links;
  }
}

void LinkMatrix::add(const std::vector<int>& order, int count) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto a = static_cast<std::size_t>(order[i]), b = static_cast<std::size_t>(order[(i + 1) % order.size()]);
    links[a][b] += count;
    links[b][a] += count;
  }
}

std::vector<std::uint32_t> LinkMatrix::neighbours(int least_links) const {
  std::vector<Mask> masks(static_cast<std::size_t>(devices));
  for (int a = 0; a < devices; ++a)
    for (int b = 0; b < devices; ++b)
      if (link_count(a, b) >= least_links) masks[a] |= bit_of(b);
  return masks;
}

std::optional<std::vector<Ring>> search_rings(const LinkMatrix& links, int weight, std::int64_t& steps) {
  OrderedSearch search(links, steps);
  if (!search.find(weight, weight, {})) return std::nullopt;
  return search.rings;
}

std::optional<std::vector<Ring>> sample_rings(const LinkMatrix& links, int weight, std::int64_t& steps,
                                              std::mt19937& random) {
  LinkMatrix left = links;
  std::vector<Ring> rings;
  for (int i = 0; i < weight; ++i) {
    std::vector<int> rank = consecutive_numbers(0, left.devices);
    for (std::size_t k = rank.size() - 1; k > 0; --k)  // std::shuffle differs between libraries
      std::swap(rank[k], rank[random() % (k + 1)]);
    const std::vector<Mask> neighbours = left.neighbours(1);
    RingWalk walk(neighbours, steps);
    const bool last = i + 1 == weight;
    if (!walk.all_ranked(rank, [&](const std::vector<int>& order) {
          left.add(order, -1);
          // A disconnected rest has no ring left; the next ring of this walk may do better.
          if (last || two_connected(left.neighbours(1))) {
            rings.push_back({order, 1});
            return true;
          }
          left.add(order, 1);
          return false;
        }))
      return std::nullopt;
  }
  return merge_and_sort(std::move(rings));
}

std::vector<Ring> greedy_rings(const LinkMatrix& links, std::int64_t steps_of_ring) {
  LinkMatrix left = links;
  std::vector<Ring> rings;
  int weight = kMostLinksOfPair;
  while (weight >= 1) {
    const std::vector<Mask> neighbours = left.neighbours(weight);
    std::int64_t steps = steps_of_ring;
    RingWalk walk(neighbours, steps);
    const bool taken = two_connected(neighbours) && walk.all_after({}, [&](const std::vector<int>& order) {
      left.add(order, -weight);
      rings.push_back({order, weight});
      return true;
    });
    if (!taken) --weight;
  }
  return merge_and_sort(std::move(rings));
}

std::optional<std::vector<Ring>> complete_graph_rings(const LinkMatrix& links) {
  const int n = links.devices, count = n < 3 ? 0 : links.link_count(0, 1);
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < n; ++b)
      if (a != b && links.link_count(a, b) != count) return std::nullopt;
  if (count == 0) return std::nullopt;
  std::vector<Ring> rings;
  if (n % 2 == 1) {
    // n − 1 is even: a zigzag and the one half a turn further are mirror images; half of them take each link once.
    for (int turn = 0; turn < (n - 1) / 2; ++turn) rings.push_back({zigzag(n, turn), count});
    return merge_and_sort(std::move(rings));
  }
  // n is even: the n − 1 zigzags take each link exactly twice.
  for (int turn = 0; count >= 2 && turn < n - 1; ++turn) rings.push_back({zigzag(n, turn), count / 2});
  if (count % 2 == 1) {
    // One link of each pair is left: Walecki's construction on n − 1 devices, with the last device inserted into one
    // hop of each ring, such that these hops have no ends in common.
    for (int turn = 0; turn < (n - 2) / 2; ++turn) {
      std::vector<int> order = zigzag(n - 1, turn);
      const std::size_t middle = static_cast<std::size_t>(n - 2) / 2;  // the diameter of the zigzag is in its middle
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(middle) + 1, n - 1);
      rings.push_back({order, 1});
    }
  }
  return merge_and_sort(std::move(rings));
}

}  // namespace trainyard
