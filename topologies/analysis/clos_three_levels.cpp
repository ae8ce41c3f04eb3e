#include <algorithm>
#include <array>
#include <utility>

#include "topologies/analysis/clos_design.hpp"

namespace trainyard {
namespace {

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

std::optional<ClosDesign> three_level_clos(const ClosRequest& request) { return ThreeLevels(request).best(); }

}  // namespace trainyard
