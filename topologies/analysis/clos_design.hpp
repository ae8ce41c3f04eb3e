#pragma once
#include "topologies/analysis/clos_network.hpp"

namespace trainyard {

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

}  // namespace trainyard
