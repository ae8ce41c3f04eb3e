#pragma once
#include <span>

#include "topologies/analysis/fabric_findings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Checks what the links between the HCAs (or chips) can carry, regardless of the nodes behind them. Wires that are
/// down do not count.
///
/// Nonblocking means rearrangeable with splitting: the fabric carries every matrix of traffic at full rate in which no
/// HCA sends or receives more than its own link carries. (C. Clos, "A study of non-blocking switching networks", Bell
/// Syst. Tech. J. 32, 1953, for permutations; the matrices are the hose model of N. G. Duffield et al., "A flexible
/// model for resource management in virtual private networks", SIGCOMM 1999.) If the links are a tree, the decision is
/// exact: each link splits the HCAs into those below and those above it; the messages between the two sides are those
/// that cross it. Therefore the most that any matrix puts on it is the smaller of the two sides' summed rates (twice
/// that on a half-duplex wire), and some matrix does. All matrices are carried if and only if every link has that
/// capacity. One switch is a tree. So is a folded Clos under ideal spraying, where one link stands for all uplinks of a
/// group of switches: no group may be oversubscribed by its own HCAs, or by those elsewhere if they are fewer.
///
/// If the links are not a tree, the fabric is nonblocking if some splitting carries all matrices: over all shortest
/// paths, or through every switch in turn (L. G. Valiant, "A scheme for fast parallel communication", SIAM J. Comput.
/// 11, 1982). It blocks if a cut (max-flow) carries less than the ends on either side of it send. Otherwise the answer
/// is unknown.
///
/// Bisection bandwidth: the least capacity from one half of the HCAs to the other, over all halves (of an odd number
/// they differ by one). Over a tree it is exact, by dynamic programming. Otherwise it is the least max-flow of many
/// halves: exact if those are all (small fabrics), or if uniform traffic shows that no half has less.
///
/// `levels`: the levels of the fabric as configured, if it has any.
FabricCheck check_fabric(const DeviceGraph&, std::span<const FabricLevel> levels = {});

/// Checks the fabric, and whether its routing blocks. The worst matrix for a link is a maximum matching of the pairs
/// whose path crosses it (B. Towles & W. J. Dally, "Worst-case traffic for oblivious routing functions", SPAA 2002).
/// This is exact for at most `kMostRoutedEnds` ends. For more ends, or very long paths, the worst of some permutations
/// is taken.
FabricCheck check_cluster_fabric(DeviceGraph&, const ClusterSpec&);

}  // namespace trainyard
