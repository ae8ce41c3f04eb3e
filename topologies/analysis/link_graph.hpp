#pragma once
#include <vector>

namespace trainyard {

constexpr int kMostRingDevices = 16, kMostLinksOfPair = 64;

/// Parallel point-to-point links of one rate (for example NVLink bricks) between two devices.
struct LinkBundle {
  int a = 0, b = 0;
  int links = 1;
};

/// Devices 0 … devices−1 and the links between them. Bundles of the same pair add up.
struct LinkGraph {
  int devices = 0;
  std::vector<LinkBundle> bundles;

  int links() const {  ///< sum over all bundles
    int sum = 0;
    for (const LinkBundle& bundle : bundles) sum += bundle.links;
    return sum;
  }
};

/// A ring through every device once: `weight` links of each hop carry it, in each direction.
struct Ring {
  std::vector<int> order;  ///< from device 0 towards its smaller neighbour on the ring
  int weight = 0;
};

}  // namespace trainyard
