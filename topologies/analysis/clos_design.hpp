#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

struct ClosRequest {
  std::int64_t hosts = 0;       ///< ports of NICs, all of the rate of a switch port
  int ports = 0;                ///< of every switch
  double oversubscription = 1;  ///< r ≥ 1: what hosts offer to what their leaf can pass on
  int levels = 0;               ///< exactly so many (1, 2 or 3); 0: those with the fewest switches
};

/// All switches of one level. Ports in use are those of the fullest switch; the links up of an aggregation switch, which
/// may differ, are an average, rounded up.
struct ClosLevel {
  std::string name;  ///< "leaf", "spine"; "leaf", "aggregation", "core"; "switch" alone
  std::int64_t switches = 0;
  int down = 0, up = 0;
};

struct ClosDesign {
  std::vector<ClosLevel> levels;  ///< from the hosts up
  std::int64_t hosts = 0, switches = 0;
  std::int64_t links = 0;       ///< cables between switches
  std::int64_t ports_left = 0;  ///< of all switches together
  int pods = 1;                 ///< of three levels: leaves with aggregation switches of their own
  double oversubscription = 1;  ///< of the fullest leaf: hosts to uplinks, at least 1

  std::int64_t cables() const { return links + hosts; }  ///< with those to the hosts
};

constexpr int kMostSwitchPorts = 1024;

/// The folded Clos (C. Clos, "A study of non-blocking switching networks", Bell Syst. Tech. J. 32, 1953; folded as the
/// fat tree of C. E. Leiserson, IEEE Trans. Comput. C-34, 1985) with the fewest switches that is nonblocking: every
/// matrix of traffic in which no host sends or receives more than its rate (the hose model; permutations are such) is
/// carried at full rate, or at 1/r of it where oversubscribed, when traffic is split. Of those with equally many
/// switches the one with fewer levels, then fewer links.
///
/// What is minimised over: networks in which every leaf splits all its traffic in the same shares p over the ways up,
/// whatever its destination (packet spraying; no routing knows the matrix). Leaves may differ in hosts and links.
/// - Two levels: leaf i with d_i hosts has c_ij links to spine j. Nonblocking if c_ij ≥ d_i p_j / r, where Σ p = 1.
/// - Three levels: pods are wired alike, but may lack a leaf. A leaf has e_j links to aggregation switch j of its pod,
///   which has w_j links up, e_j ≥ d p_j / r and w_j ≥ D p_j / r, for the fullest leaf d and the fullest pod D. Every
///   core switch has the same number of links to each pod.
/// A test compares with an exhaustive search of both families for up to 20 hosts. Counting ports alone, ⌈uplinks /
/// ports⌉ spines, is not enough: five full leaves of 8-port switches have 20 uplinks, but three spines block. Two leaves
/// that have no more uplinks than hosts can only fill each other if both have the same number of links to each spine,
/// and two links from each of five leaves exceed a spine, so there are four spines with one. (Routes chosen for each
/// matrix can save a switch where leaves differ: 18 hosts on 8 switches of 8 ports, where spraying needs 9.)
/// Throws UserError for impossible requests, with the most hosts that are possible.
ClosDesign design_clos(const ClosRequest&);

/// The most hosts that so many levels carry; 0 levels: any.
std::int64_t most_clos_hosts(int ports, int levels, double oversubscription = 1);

}  // namespace trainyard
