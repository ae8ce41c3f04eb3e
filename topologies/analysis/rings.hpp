#pragma once
#include <string>
#include <vector>

namespace trainyard {

constexpr int kMostRingDevices = 16, kMostLinksOfPair = 64;

/// `links` point-to-point links of one rate (NVLink bricks, say) between two devices.
struct LinkBundle {
  int a = 0, b = 0;
  int links = 1;
};

/// Devices 0 … devices−1 and the links between them. Bundles of the same pair add up.
struct LinkGraph {
  int devices = 0;
  std::vector<LinkBundle> bundles;

  int links() const {  ///< of all bundles
    int sum = 0;
    for (const LinkBundle& bundle : bundles) sum += bundle.links;
    return sum;
  }
};

/// Every device once, back to the first: `weight` links of each hop carry it, in each direction.
struct Ring {
  std::vector<int> order;  ///< from device 0 towards its smaller neighbour on the ring
  int weight = 0;
};

struct RingDecomposition {
  std::vector<Ring> rings;  ///< heaviest first, then by order; no link in two of them
  int weight = 0;           ///< sum of the rings' weights
  int bound = 0;            ///< no set of rings weighs more
  int unused_links = 0;
  bool complete = true;  ///< false: the bound on effort was hit; a better set may exist, of weight up to `bound`
  std::string none;      ///< why there is no ring; empty where there is one
};

/// Edge-disjoint Hamiltonian rings of the multigraph: the most total weight; among those, ring by ring, the heaviest
/// next ring, and of equally heavy ones the lexicographically smallest. (Two devices are a ring of two parallel links.)
///
/// The search is exact and ends early when it meets the bound, the least over all sets A of devices of
///   links(A, rest) / 2                   a ring crosses every cut at least twice, and
///   links within A / (2|A| − n)          |A| > n/2: a ring has at least 2|A| − n hops within A,
/// where of each pair's links no more count than there can be rings.
/// Its effort is bounded by a count of steps, not by time, so that the answer is the same everywhere. Past that it says
/// `complete: false` and takes the known decompositions of complete graphs of one multiplicity (Walecki's, after
/// B. Alspach, "The wonderful Walecki construction", Bull. Inst. Combin. Appl. 52, 2008), seeded random restarts, or the
/// heaviest rings one after another.
/// Throws UserError for fewer than 2 or more than 16 devices, a link to itself or to no device, and a count < 1 or > 64.
RingDecomposition decompose_rings(const LinkGraph&);

}  // namespace trainyard
