#pragma once
#include <span>

#include "topologies/analysis/fabric_findings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// What the links between the HCAs (or chips) can carry, whatever the nodes behind them can. Wires that are down do not
/// count.
///
/// Nonblocking is meant as rearrangeable with splitting: every matrix of traffic in which no HCA sends or receives more
/// than its own link carries is carried at full rate. (C. Clos, "A study of non-blocking switching networks", Bell
/// Syst. Tech. J. 32, 1953, for permutations; the matrices are the hose model of N. G. Duffield et al., "A flexible
/// model for resource management in virtual private networks", SIGCOMM 1999.) Where the links are a tree, the case
/// is decided exactly: each link splits the HCAs into those below and those above it, every message between the two
/// crosses it and no other message does, so the most that any matrix puts on it is the lesser of the two sides' summed
/// rates (twice that on a half-duplex wire), and there is one that does. All matrices are carried if and only if every
/// link has that capacity. One switch is a tree; so is a folded Clos under ideal spraying, where one link stands for all
/// uplinks of a group of switches: there the condition is that no group is oversubscribed by the HCAs that it has, or by
/// those elsewhere if fewer.
///
/// Elsewhere it is proved by a way of splitting that carries all matrices (over all shortest paths; or by way of every
/// switch in turn: L. G. Valiant, "A scheme for fast parallel communication", SIAM J. Comput. 11, 1982), refuted by a
/// cut (max-flow) that carries less than the ends on either side of it send, and unknown where neither is found.
///
/// Bisection bandwidth: the least capacity from one half of the HCAs to the other, over all halves (of an odd number
/// they differ by one), exact by dynamic programming over a tree. Elsewhere it is the least max-flow of many halves,
/// exact where those are all (small fabrics), or where uniform traffic shows that no half has less.
///
/// `levels`: of the fabric as configured, if it has any.
FabricCheck check_fabric(const DeviceGraph&, std::span<const FabricLevel> levels = {});

/// The same, and whether the routing blocks: on every link the most that any matrix puts there is a matching of the
/// pairs whose way crosses it (B. Towles & W. J. Dally, "Worst-case traffic for oblivious routing functions", SPAA
/// 2002): exact up to `kMostRoutedEnds` ends; with more, or very long paths, the worst of some permutations.
FabricCheck check_cluster_fabric(DeviceGraph&, const ClusterSpec&);

}  // namespace trainyard
