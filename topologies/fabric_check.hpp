#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topologies/cluster.hpp"

namespace trainyard {

enum class Nonblocking : std::uint8_t { no, yes, unknown };

struct HcaPair {
  DeviceId from = 0, to = 0;
};

/// Pairs that send at the same time, no HCA in two of them (the rest of the permutation stays put), and how much longer
/// each takes than alone on the fabric. (Where a link is slower than one HCA a pair alone has not its full rate either,
/// and the slowdown can be 1: the link, not the others, blocks it.)
struct BlockedPattern {
  std::vector<HcaPair> pairs;
  DeviceId below = 0, above = 0;  ///< the link that all of them cross
  double slowdown = 1;            ///< bytes/s of a pair alone over bytes/s of each when all send
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

struct FabricCheck {
  Nonblocking nonblocking = Nonblocking::unknown;
  std::string reason;  ///< what proves or refutes it, or why it is unknown
  std::optional<BlockedPattern> counterexample;
  // Without a value where the links between the HCAs are no tree.
  std::optional<BytesPerSecond> bisection;              ///< one direction
  bool bisection_exact = true;                          ///< false: an upper bound, the cut of one split
  std::vector<LevelOversubscription> oversubscription;  ///< from the HCAs up
  std::optional<int> diameter_hops;                     ///< links on the longest way between two HCAs
  std::optional<Picoseconds> diameter_latency;          ///< of the slowest way between two HCAs, software excluded
};

/// More HCAs than this and the bisection bandwidth is the bound only (the time grows with their square).
constexpr std::size_t kMostExactBisection = 1 << 15;

/// What the links between the HCAs can carry, whatever is behind them in the nodes.
///
/// Nonblocking is meant as rearrangeable with splitting: every matrix of traffic in which no HCA sends or receives more
/// than its own link carries is carried at full rate. (C. Clos, "A study of non-blocking switching networks", Bell
/// Syst. Tech. J. 32, 1953, for permutations; the matrices are the hose model of N. G. Duffield et al., "A flexible
/// model for resource management in virtual private networks", SIGCOMM 1999.) Where the links are a tree, the case
/// is decided exactly: each link splits the HCAs into those below and those above it, every message between the two
/// crosses it and no other message does, so the most that any matrix puts on it is the lesser of the two sides' summed
/// rates, and there is one that does. All matrices are carried if and only if every link has that capacity. One switch
/// is a tree; so is a folded Clos under ideal spraying, where one link stands for all uplinks of a group of switches:
/// there the condition is that no group is oversubscribed by the HCAs that it has, or by those elsewhere if fewer.
///
/// Bisection bandwidth: the least capacity from one half of the HCAs to the other, over all halves (of an odd number
/// they differ by one), exact by dynamic programming over the tree. A half may take HCAs of any group.
///
/// `levels`: of the fabric as configured, if it has any.
FabricCheck check_fabric(const DeviceGraph&, std::span<const FabricLevel> levels = {});

/// Capacity from the HCAs `from` to all others (max-flow = min-cut), where the links are a tree. Throws UserError where
/// not.
BytesPerSecond cut_capacity(const DeviceGraph&, const std::vector<DeviceId>& from);

/// The pattern run on the simulator: the time in which all pairs have sent equal bytes, over that of the first alone.
/// HCAs send and receive themselves, without latencies: what is asked is what the rates of the fabric allow, not those
/// of the PCIe links or GPUs behind it.
double simulated_slowdown(const DeviceGraph&, const std::vector<HcaPair>&);

}  // namespace trainyard
