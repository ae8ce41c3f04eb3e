#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

struct ClosRequest {
  std::int64_t hosts = 0;       ///< ports of NICs, all with the rate of a switch port
  int ports = 0;                ///< ports of every switch
  double oversubscription = 1;  ///< r ≥ 1: rate that hosts offer divided by the rate that their leaf can forward
  int levels = 0;               ///< required number (1, 2 or 3); 0: the number with the fewest switches
};

/// All switches of one level. `down` and `up` are the used ports of the fullest switch; for aggregation switches, which
/// may differ, `up` is an average, rounded up.
struct ClosLevel {
  std::string name;  ///< "leaf", "spine"; "leaf", "aggregation", "core"; "switch" if it is the only one
  std::int64_t switches = 0;
  int down = 0, up = 0;
};

struct ClosDesign {
  std::vector<ClosLevel> levels;  ///< from the hosts up
  std::int64_t hosts = 0, switches = 0;
  std::int64_t links = 0;       ///< number of cables between switches
  std::int64_t ports_left = 0;  ///< unused ports of all switches together
  int pods = 1;  ///< with three levels: number of groups of leaves with aggregation switches of their own
  double oversubscription = 1;  ///< hosts divided by uplinks in the fullest leaf, at least 1

  std::int64_t cables() const { return links + hosts; }  ///< including those to the hosts
};

constexpr int kMostSwitchPorts = 1024;

/// The nonblocking folded Clos with the fewest switches (C. Clos, "A study of non-blocking switching networks", Bell
/// Syst. Tech. J. 32, 1953; folded as the fat tree of C. E. Leiserson, IEEE Trans. Comput. C-34, 1985). Nonblocking: if
/// traffic is split, it carries every matrix in which no host sends or receives more than its rate (the hose model,
/// which includes permutations) at full rate, or at 1/r of it if oversubscribed. Among designs with equally many
/// switches it has the fewest levels, then the fewest links.
///
/// The minimum is over networks in which every leaf splits all its traffic in the same shares p over the ways up,
/// whatever the destination (packet spraying; no routing knows the matrix). Leaves may differ in hosts and links.
/// - Two levels: leaf i with d_i hosts has c_ij links to spine j. It is nonblocking if c_ij ≥ d_i p_j / r with Σ p = 1.
/// - Three levels: pods have the same wiring, but may lack a leaf. A leaf has e_j links to aggregation switch j of its
/// pod, which has w_j links up, e_j ≥ d p_j / r and w_j ≥ D p_j / r, for the fullest leaf d and the fullest pod D.
/// Every core switch has the same number of links to each pod.
/// A test compares with an exhaustive search of both families for up to 20 hosts. Counting ports alone, ⌈uplinks /
/// ports⌉ spines, is not enough: five full leaves of 8-port switches have 20 uplinks, but three spines block. Two
/// leaves that have no more uplinks than hosts can only fill each other if both have the same number of links to each
/// spine, and two links from each of five leaves exceed a spine; therefore four spines with one link each are needed.
/// (Routes chosen for each matrix can save a switch if leaves differ: 18 hosts on 8 switches of 8 ports, where spraying
/// needs 9.)
/// Throws UserError for impossible requests, with the largest possible number of hosts.
ClosDesign design_clos(const ClosRequest&);

/// The largest number of hosts with that many levels; 0 levels: with any number.
std::int64_t most_clos_hosts(int ports, int levels, double oversubscription = 1);

/// The best design with exactly two or three levels. No value: there is none.
std::optional<ClosDesign> two_level_clos(const ClosRequest&);
std::optional<ClosDesign> three_level_clos(const ClosRequest&);

constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
/// ⌈links / r⌉, with a margin for an r like 1.2, which is not a binary fraction.
inline std::int64_t divide_links(double links, double r) {
  return static_cast<std::int64_t>(std::ceil(links / r - 1e-9));
}

/// Largest number of hosts of a leaf; the rest of its ports go up.
std::int64_t most_hosts_of_leaf(std::int64_t ports, double oversubscription);

/// A search for the best design that answers a request.
class ClosSearch {
 public:
  explicit ClosSearch(const ClosRequest& request)
      : request_(request), ports_(request.ports), r_(request.oversubscription) {}

 protected:
  const ClosRequest& request_;
  const std::int64_t ports_;
  const double r_;  ///< oversubscription
  std::optional<ClosDesign> best_;

  /// Number of switches of the best design so far.
  std::int64_t limit() const { return best_ ? best_->switches : INT64_MAX; }
  /// Sets the totals of a design from its levels, and keeps the design if it is the best so far: it has the fewest
  /// switches; if equal, the fewest levels; if equal, the fewest links.
  void offer(ClosDesign);
};

}  // namespace trainyard
