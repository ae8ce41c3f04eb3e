#pragma once
#include <optional>
#include <string>
#include <vector>

#include "topologies/device_graph.hpp"

namespace trainyard {

enum class Nonblocking : std::uint8_t { no, yes, unknown };

/// A pair of ends of the fabric: HCAs, or chips with links of their own.
struct HcaPair {
  DeviceId from = 0, to = 0;
};

/// Part of a permutation: pairs that send at the same time, and by how much each slows down compared with being alone
/// on the fabric. (If a link is slower than one end, a pair alone does not get its full rate either, and the slowdown
/// can be 1.)
struct BlockedPattern {
  std::vector<HcaPair> pairs;
  std::string link;  ///< name of the link that all of them cross: a direction of a wire, or a shared medium
  DeviceId below = -1, above = -1;  ///< the ends of the wire; −1: the link is a medium
  double slowdown = 1;              ///< bytes/s of a pair alone divided by bytes/s of each when all send
};

/// One level of switches. The oversubscription of its busiest group: rate that it could get from below divided by the
/// rate that it can send up.
struct LevelOversubscription {
  std::string name;       ///< name of the level's first group without its number: "leaf"
  int groups = 0;         ///< number of groups with an uplink
  int hcas = 0;           ///< number of HCAs below the busiest group
  double configured = 0;  ///< according to the fabric's levels, for a full group; 0: not stated
  double attached = 0;    ///< demand of the existing links down
  double of_hcas = 0;     ///< demand of the existing HCAs: rates of all levels below, combined
};

/// Result of the check whether the wiring is nonblocking if each pair of ends uses one path.
struct RoutingCheck {
  std::string rule;  ///< "dimension order", "hashed ECMP, seed 1", …
  Nonblocking nonblocking = Nonblocking::unknown;
  std::string reason;
  std::optional<BlockedPattern> counterexample;
};

struct FabricCheck {
  Nonblocking nonblocking = Nonblocking::unknown;  ///< with ideal splitting over all paths
  bool is_unfinished = false;                      ///< a signal ended the check before all was found
  std::string reason;                              ///< the proof or refutation, or why it is unknown
  std::optional<BlockedPattern> counterexample;    ///< if there is one path for each pair
  std::optional<RoutingCheck> routing;             ///< if there are several paths and routing is static
  std::string ends = "HCA";                        ///< the devices that the fabric joins: "HCA" | "chip"
  std::optional<BytesPerSecond> bisection;         ///< in one direction
  bool bisection_exact = true;                     ///< false: an upper bound, the least cut of the tested halves
  /// From the HCAs up; empty if switches have no levels (a torus, a dragonfly, arbitrary links).
  std::vector<LevelOversubscription> oversubscription;
  std::optional<int> diameter_hops;             ///< links on the longest path between two ends, as routed
  std::optional<Picoseconds> diameter_latency;  ///< latency of the slowest path between two ends, without software
};

/// Up to this number of ends, the bisection bandwidth of a tree is exact (its time grows with the square).
constexpr std::size_t kMostExactBisection = 1 << 15;
/// Up to this number of ends, all pairs are examined if the links are not a tree.
constexpr std::size_t kMostRoutedEnds = 1024;

}  // namespace trainyard
