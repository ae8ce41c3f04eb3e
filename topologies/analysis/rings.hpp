#pragma once
#include <string>
#include <vector>

#include "topologies/analysis/link_graph.hpp"

namespace trainyard {

struct RingDecomposition {
  std::vector<Ring> rings;  ///< heaviest first, then by order; no link is in two of them
  int weight = 0;           ///< sum of the rings' weights
  int bound = 0;            ///< upper bound of `weight`
  int unused_links = 0;
  /// False: the search reached its limit of steps; a better set of weight up to `bound` may exist.
  bool complete = true;
  std::string none;  ///< why there is no ring; empty if there is one
};

/// Finds edge-disjoint Hamiltonian rings of the multigraph with the largest total weight; among those, ring by ring,
/// the heaviest next ring, and among equally heavy ones the lexicographically smallest. (Two devices are a ring of two
/// parallel links.)
///
/// The search is exact and ends early when it meets the bound, the least over all sets A of devices of
///   links(A, rest) / 2                   a ring crosses every cut at least twice, and
///   links within A / (2|A| − n)          |A| > n/2: a ring has at least 2|A| − n hops within A.
/// No more links of a pair count than there can be rings. The effort is bounded by a number of steps, not by
/// time, so that the answer is the same everywhere. Beyond it, the result says `complete: false` and uses the known
/// decompositions of complete graphs of one multiplicity (Walecki's, after B. Alspach, "The wonderful Walecki
/// construction", Bull. Inst. Combin. Appl. 52, 2008), seeded random restarts, or the heaviest rings one after another.
/// Throws UserError for fewer than 2 or more than 16 devices, a link to itself or to no device, and a count < 1 or >
/// 64.
RingDecomposition decompose_rings(const LinkGraph&);

}  // namespace trainyard
