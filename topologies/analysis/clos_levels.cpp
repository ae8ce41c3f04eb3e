#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "topologies/analysis/clos_design.hpp"

namespace trainyard {
namespace {

/// Searches designs with two levels. A full leaf spreads its u uplinks evenly over the S spines, c_j of them to spine j,
/// which then takes the share c_j / u of all traffic. The spines with the most links are full first, so that only they
/// matter. With k links to each of them, a leaf forwards the traffic of min(d, ⌊k slope⌋) hosts, and a spine's ports are
/// the sum of k over the leaves.
class TwoLevels : private ClosSearch {
 public:
  using ClosSearch::ClosSearch;

  std::optional<ClosDesign> best() {
    for (std::int64_t hosts = most_hosts_of_leaf(ports_, r_); hosts >= 1; --hosts) {
      const std::int64_t leaves = ceiling(request_.hosts, hosts);
      if (leaves > ports_) break;
      const std::int64_t least = divide_links(static_cast<double>(hosts), r_);
      for (std::int64_t spines = 1; spines <= ports_ - hosts && leaves + spines <= limit(); ++spines) {
        // The fewest links, and the most that a spine can give a leaf if the leaf's uplinks divide evenly.
        const std::int64_t even = ceiling(least, spines) * spines;
        try_wiring(hosts, std::max(least, spines), spines);
        try_wiring(hosts, even + hosts <= ports_ ? even : ports_ - hosts, spines);
      }
    }
    return best_;
  }

 private:
  void try_wiring(std::int64_t most_hosts, std::int64_t uplinks, std::int64_t spines) {
    const std::int64_t links_each = ceiling(uplinks, spines);
    const double slope = r_ * static_cast<double>(uplinks) / static_cast<double>(links_each);
    if (slope * static_cast<double>(ports_) < static_cast<double>(request_.hosts) - 1e-9) return;
    const std::int64_t least = std::max<std::int64_t>(2, ceiling(request_.hosts, most_hosts));
    for (std::int64_t leaves = least; leaves <= std::min({least + 1, request_.hosts, limit() - spines}); ++leaves)
      if (const auto hosts = spread(leaves, most_hosts, slope)) return offer_wiring(*hosts, uplinks, spines);
  }

  /// The hosts of each leaf, which sum to all hosts. No value: a spine has too few ports.
  std::optional<std::vector<std::int64_t>> spread(std::int64_t leaves, std::int64_t most_hosts, double slope) const {
    const auto carried = [&](std::int64_t k) {
      return std::min(most_hosts, static_cast<std::int64_t>(static_cast<double>(k) * slope + 1e-9));
    };
    std::int64_t full = 1;
    while (carried(full) < most_hosts) ++full;
    std::vector<std::int64_t> links;
    if (leaves * full <= ports_) {
      links.assign(static_cast<std::size_t>(leaves), full);
    } else if (static_cast<double>(leaves) *
                   concave(static_cast<double>(ports_) / static_cast<double>(leaves), full, carried) <
               static_cast<double>(request_.hosts) - 1e-6) {
      return std::nullopt;
    } else if (const auto found = most_carried(leaves, full, carried)) {
      links = *found;
    } else {
      return std::nullopt;
    }
    // Unneeded host ports are left free on the last leaves, as evenly as possible.
    std::int64_t spare = -request_.hosts;
    for (const std::int64_t k : links) spare += carried(k);
    if (spare < 0) return std::nullopt;
    std::vector<std::int64_t> hosts;
    for (std::size_t i = 0; i < links.size(); ++i) {
      const auto leaves_left = static_cast<std::int64_t>(links.size() - i);
      const std::int64_t free = std::min(spare / leaves_left, carried(links[i]) - 1);
      spare -= free;
      hosts.push_back(carried(links[i]) - free);
    }
    return hosts;
  }

  /// Upper bound of the hosts for each leaf if leaves have `mean` links to a spine on average: the concave hull of what
  /// they carry.
  template <class Carried>
  static double concave(double mean, std::int64_t full, const Carried& carried) {
    if (mean >= static_cast<double>(full)) return static_cast<double>(carried(full));
    // Finds the best chord over the mean: from the left end to the point with the steepest slope, and so on.
    std::int64_t left = 0;
    while (true) {
      std::int64_t right = left + 1;
      double steepest = -1;
      for (std::int64_t k = left + 1; k <= full; ++k) {
        const double slope = static_cast<double>(carried(k) - carried(left)) / static_cast<double>(k - left);
        if (slope >= steepest) steepest = slope, right = k;
      }
      if (static_cast<double>(right) >= mean)
        return static_cast<double>(carried(left)) + steepest * (mean - static_cast<double>(left));
      left = right;
    }
  }

  /// Links of each leaf to a spine, at most `ports_` in all, that carry the most hosts: exact, leaf by leaf.
  template <class Carried>
  std::optional<std::vector<std::int64_t>> most_carried(std::int64_t leaves, std::int64_t full,
                                                        const Carried& carried) const {
    const auto width = static_cast<std::size_t>(ports_) + 1;
    std::vector<std::vector<std::int64_t>> most(static_cast<std::size_t>(leaves) + 1,
                                                std::vector<std::int64_t>(width, -1));
    auto best_links = most;
    most[0][0] = 0;
    for (std::size_t leaf = 0; leaf + 1 < most.size(); ++leaf)
      for (std::size_t used = 0; used < width; ++used)
        for (std::int64_t k = 1; most[leaf][used] >= 0 && k <= full; ++k) {
          const std::size_t now = used + static_cast<std::size_t>(k);
          if (now >= width) break;
          if (most[leaf][used] + carried(k) <= most[leaf + 1][now]) continue;
          most[leaf + 1][now] = most[leaf][used] + carried(k);
          best_links[leaf + 1][now] = k;
        }
    const auto& last = most.back();
    auto used = static_cast<std::size_t>(std::ranges::max_element(last) - last.begin());
    if (last[used] < request_.hosts) return std::nullopt;
    std::vector<std::int64_t> links;
    for (std::size_t leaf = most.size() - 1; leaf > 0; --leaf) {
      links.push_back(best_links[leaf][used]);
      used -= static_cast<std::size_t>(best_links[leaf][used]);
    }
    std::sort(links.rbegin(), links.rend());
    return links;
  }

  void offer_wiring(const std::vector<std::int64_t>& hosts, std::int64_t uplinks, std::int64_t spines) {
    const std::int64_t links_each = uplinks / spines, more = uplinks % spines;
    std::int64_t most_up = 0, most_down = 0;
    ClosDesign design;
    for (const std::int64_t d : hosts) {
      const auto to_spine = [&](std::int64_t c) {
        return c == 0 ? 0 : divide_links(static_cast<double>(d * c) / static_cast<double>(uplinks), r_);
      };
      const std::int64_t up = more * to_spine(links_each + 1) + (spines - more) * to_spine(links_each);
      most_up = std::max(most_up, up);
      most_down += to_spine(links_each + (more > 0 ? 1 : 0));
      design.links += up;
      design.oversubscription = std::max(design.oversubscription, static_cast<double>(d) / static_cast<double>(up));
    }
    const std::int64_t most_hosts = *std::ranges::max_element(hosts);
    design.levels = {
        {"leaf", static_cast<std::int64_t>(hosts.size()), static_cast<int>(most_hosts), static_cast<int>(most_up)},
        {"spine", spines, static_cast<int>(most_down), 0}};
    offer(std::move(design));
  }
};

/// A number of leaves in a number of pods. Hosts are spread evenly over the pods, and in each pod over its leaves.
struct PodLayout {
  std::int64_t leaves, pods;
  std::int64_t leaves_of_pod, hosts_of_leaf, hosts_of_pod;  // sizes of the fullest pod and leaf

  PodLayout(std::int64_t hosts, std::int64_t all_leaves, std::int64_t all_pods)
      : leaves(all_leaves),
        pods(all_pods),
        leaves_of_pod(ceiling(leaves, pods)),
        hosts_of_leaf(ceiling(hosts, leaves)),
        hosts_of_pod(ceiling(hosts, pods)) {
    // Pods that lack a leaf may not hold their share; the other pods then take the rest.
    const std::int64_t full = leaves - pods * (leaves_of_pod - 1), less = pods - full;
    const std::int64_t rest = hosts - less * (leaves_of_pod - 1) * hosts_of_leaf;
    if (rest > 0) hosts_of_pod = std::max(hosts_of_pod, ceiling(rest, full));
  }
};

/// Searches designs with three levels. Each loop ends once the necessary switches are no better than the best design so
/// far.
class ThreeLevels : private ClosSearch {
 public:
  using ClosSearch::ClosSearch;

  std::optional<ClosDesign> best() {
    const std::int64_t hosts = request_.hosts;
    const std::int64_t most = most_hosts_of_leaf(ports_, r_);
    if (most == 0) return std::nullopt;
    // Traffic that leaves forward crosses aggregation switches twice, and core switches once on each side.
    const std::int64_t passed = divide_links(static_cast<double>(hosts), r_);
    const std::int64_t above = ceiling(2 * passed, ports_) + ceiling(passed, ports_);
    for (std::int64_t leaves = std::max<std::int64_t>(2, ceiling(hosts, most));
         leaves <= hosts && leaves + above <= limit(); ++leaves)
      for (std::int64_t pods = std::min<std::int64_t>(ports_, leaves); pods >= 2; --pods) {
        if (ceiling(leaves, pods) >= ports_) break;
        try_pods({hosts, leaves, pods});
      }
    return best_;
  }

 private:
  void try_pods(const PodLayout& pod) {
    const std::int64_t passed = divide_links(static_cast<double>(pod.hosts_of_pod), r_);
    const std::int64_t least_cores = ceiling(passed, ports_ / pod.pods);
    const auto needed = [&](std::int64_t aggregation) { return pod.leaves + pod.pods * aggregation + least_cores; };
    const std::int64_t least = divide_links(static_cast<double>(pod.hosts_of_leaf), r_);
    for (std::int64_t uplinks = least; uplinks + pod.hosts_of_leaf <= ports_; ++uplinks) {
      const std::int64_t fewest = ceiling(pod.leaves_of_pod * uplinks + passed, ports_);
      if (needed(fewest) > limit()) break;
      if (up_links(pod, uplinks, uplinks) == 0) continue;  // more switches would need even more ports: none will do
      for (std::int64_t a = fewest; a <= uplinks && needed(a) <= limit(); ++a)
        if (const std::int64_t up = up_links(pod, uplinks, a); up > 0)
          if (try_design(pod, uplinks, a, up) == least_cores) break;
    }
  }

  /// Links up of a pod with that many aggregation switches; 0 if their ports do not suffice. Links up are added one by
  /// one. Each carries 1 / D of the pod's traffic, until the switch carries as much as its links down can: e / d.
  std::int64_t up_links(const PodLayout& pod, std::int64_t uplinks, std::int64_t aggregation) const {
    const double d = static_cast<double>(pod.hosts_of_leaf), D = static_cast<double>(pod.hosts_of_pod);
    const std::int64_t few = uplinks / aggregation, more = uplinks % aggregation;
    double traffic_left = D / r_;
    std::int64_t up = 0;
    // Remaining capacity of a switch's last link, and the number of such switches.
    std::array<std::pair<double, std::int64_t>, 2> rests;
    for (const bool extra : {true, false}) {
      const std::int64_t links_each = few + (extra ? 1 : 0), switches = extra ? more : aggregation - more;
      const double most = D * static_cast<double>(links_each) / d;
      const std::int64_t free = std::max<std::int64_t>(0, ports_ - pod.leaves_of_pod * links_each);
      const auto full_links = static_cast<std::int64_t>(most + 1e-9);
      const std::int64_t added =
          std::min(switches * std::min(full_links, free), std::max<std::int64_t>(0, divide_links(traffic_left, 1)));
      up += added;
      traffic_left -= static_cast<double>(added);
      rests[extra ? 0 : 1] = {most - static_cast<double>(full_links), full_links < free ? switches : 0};
    }
    std::sort(rests.rbegin(), rests.rend());
    for (const auto& [rest, switches] : rests) {
      if (traffic_left <= 1e-9 || rest <= 1e-9) break;
      const std::int64_t added = std::min(switches, divide_links(traffic_left, rest));
      up += added;
      traffic_left -= static_cast<double>(added) * rest;
    }
    return traffic_left <= 1e-9 ? up : 0;
  }

  /// Returns the number of core switches.
  std::int64_t try_design(const PodLayout& pod, std::int64_t uplinks, std::int64_t aggregation, std::int64_t up) {
    const std::int64_t most = ceiling(uplinks, aggregation);
    const std::int64_t of_core = ports_ / pod.pods, cores = ceiling(up, of_core);
    ClosDesign design;
    design.levels = {{"leaf", pod.leaves, static_cast<int>(pod.hosts_of_leaf), static_cast<int>(uplinks)},
                     {"aggregation", pod.pods * aggregation, static_cast<int>(pod.leaves_of_pod * most),
                      static_cast<int>(ceiling(up, aggregation))},
                     {"core", cores, static_cast<int>(pod.pods * ceiling(up, cores)), 0}};
    design.links = pod.leaves * uplinks + pod.pods * up;
    design.pods = static_cast<int>(pod.pods);
    design.oversubscription = std::max(1.0, static_cast<double>(pod.hosts_of_leaf) / static_cast<double>(uplinks));
    offer(std::move(design));
    return cores;
  }
};

}  // namespace

std::optional<ClosDesign> two_level_clos(const ClosRequest& request) { return TwoLevels(request).best(); }

std::optional<ClosDesign> three_level_clos(const ClosRequest& request) { return ThreeLevels(request).best(); }

}  // namespace trainyard
