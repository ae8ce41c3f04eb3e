#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topologies/cluster.hpp"

namespace trainyard {

enum class Nonblocking : std::uint8_t { no, yes, unknown };

/// Ends of the fabric: HCAs, or chips with links of their own.
struct HcaPair {
  DeviceId from = 0, to = 0;
};

/// Pairs that send at the same time, of which no end sends or receives two messages (the rest of the permutation stays
/// put), and how much longer each takes than alone on the fabric. (Where a link is slower than one end a pair alone has
/// not its full rate either, and the slowdown can be 1: the link, not the others, blocks it.)
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

/// What becomes of the wiring when each pair of ends keeps one way.
struct RoutingCheck {
  std::string how;  ///< "dimension order", "hashed ECMP, seed 1", …
  Nonblocking nonblocking = Nonblocking::unknown;
  std::string reason;
  std::optional<BlockedPattern> counterexample;
};

struct FabricCheck {
  Nonblocking nonblocking = Nonblocking::unknown;  ///< with ideal splitting over all ways
  std::string reason;                              ///< what proves or refutes it, or why it is unknown
  std::optional<BlockedPattern> counterexample;    ///< where there is one way for each pair
  std::optional<RoutingCheck> routing;             ///< where there are several ways, and routing is static
  std::string ends = "HCA";                        ///< what the fabric joins: "HCA" | "chip"
  std::optional<BytesPerSecond> bisection;         ///< one direction
  bool bisection_exact = true;                     ///< false: an upper bound, the least cut of the halves tried
  /// From the HCAs up; empty where switches have no levels (a torus, a dragonfly, links at will).
  std::vector<LevelOversubscription> oversubscription;
  std::optional<int> diameter_hops;             ///< links on the longest way between two ends, as routed
  std::optional<Picoseconds> diameter_latency;  ///< of the slowest way between two ends, software excluded
};

/// More ends than this and the bisection bandwidth of a tree is the bound only (the time grows with their square).
constexpr std::size_t kMostExactBisection = 1 << 15;
/// More ends than this and not all of their pairs are looked at where the links are no tree.
constexpr std::size_t kMostRoutedEnds = 1024;

/// What the links between the HCAs (or chips) can carry, whatever is behind them in the nodes. Wires that are down are
/// not there.
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
/// Elsewhere it is proved by a way of splitting that carries all matrices (over all shortest ways; or by way of every
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
/// 2002): exact up to `kMostRoutedEnds` ends; with more, or very long ways, the worst of some permutations.
FabricCheck check_cluster_fabric(DeviceGraph&, const ClusterSpec&);

/// Capacity from the ends `from` to all others (max-flow = min-cut), one direction.
BytesPerSecond cut_capacity(const DeviceGraph&, const std::vector<DeviceId>& from);

/// The pattern run on the simulator, over the ways of a tree: the time in which all pairs have sent equal bytes, over
/// that of the first alone. Ends send and receive themselves, without latencies: what is asked is what the rates of the
/// fabric allow, not those of the PCIe links or GPUs behind it. Throws UserError where the links are no tree.
double simulated_slowdown(const DeviceGraph&, const std::vector<HcaPair>&);
/// The same over the ways that messages really take.
double simulated_slowdown_as_routed(DeviceGraph&, const std::vector<HcaPair>&);

}  // namespace trainyard
