#pragma once
#include "topologies/analysis/clos_network.hpp"

namespace trainyard {

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
