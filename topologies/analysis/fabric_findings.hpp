#pragma once
#include <optional>
#include <string>
#include <vector>

#include "topologies/device_graph.hpp"

namespace trainyard {

enum class Nonblocking : std::uint8_t { no, yes, unknown };

/// Ends of the fabric: HCAs, or chips with links of their own.
struct HcaPair {
  DeviceId from = 0, to = 0;
};

/// Part of a permutation: pairs that send at the same time, and how much longer each takes than alone on the fabric.
/// (Where a link is slower than one end, a pair alone does not get its full rate either, and the slowdown can be 1.)
struct BlockedPattern {
  std::vector<HcaPair> pairs;
  std::string link;                 ///< name of what all of them cross: a direction of a wire, or a shared medium
  DeviceId below = -1, above = -1;  ///< the ends of the wire; −1: it is a medium
  double slowdown = 1;              ///< bytes/s of a pair alone over bytes/s of each when all send
};

/// One level of switches, and what its busiest group of switches could get from below over what it can send up.
struct LevelOversubscription {
  std::string name;       ///< of the level's first group, without its number: "leaf"
  int groups = 0;         ///< with an uplink
  int hcas = 0;           ///< below the busiest
  double configured = 0;  ///< as the fabric's levels say, for a full group; 0: they do not
  double attached = 0;    ///< of the links down that are there
  double of_hcas = 0;     ///< of the HCAs that are there: rates of all levels below in one
};

/// What the wiring carries when each pair of ends keeps one path.
struct RoutingCheck {
  std::string how;  ///< "dimension order", "hashed ECMP, seed 1", …
  Nonblocking nonblocking = Nonblocking::unknown;
  std::string reason;
  std::optional<BlockedPattern> counterexample;
};

struct FabricCheck {
  Nonblocking nonblocking = Nonblocking::unknown;  ///< with ideal splitting over all paths
  std::string reason;                              ///< what proves or refutes it, or why it is unknown
  std::optional<BlockedPattern> counterexample;    ///< where there is one path for each pair
  std::optional<RoutingCheck> routing;             ///< where there are several paths, and routing is static
  std::string ends = "HCA";                        ///< what the fabric joins: "HCA" | "chip"
  std::optional<BytesPerSecond> bisection;         ///< one direction
  bool bisection_exact = true;                     ///< false: an upper bound, the least cut of the halves tried
  /// From the HCAs up; empty where switches have no levels (a torus, a dragonfly, links at will).
  std::vector<LevelOversubscription> oversubscription;
  std::optional<int> diameter_hops;             ///< links on the longest path between two ends, as routed
  std::optional<Picoseconds> diameter_latency;  ///< of the slowest path between two ends, software excluded
};

/// Up to so many ends the bisection bandwidth of a tree is exact (its time grows with their square).
constexpr std::size_t kMostExactBisection = 1 << 15;
/// Where the links are no tree, all pairs are examined of up to so many ends.
constexpr std::size_t kMostRoutedEnds = 1024;

}  // namespace trainyard
