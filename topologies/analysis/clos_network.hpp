#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

struct ClosRequest {
  std::int64_t hosts = 0;       ///< ports of NICs, all with the rate of a switch port
  int ports = 0;                ///< ports of every switch
  double oversubscription = 1;  ///< r ≥ 1: rate that hosts offer divided by the rate that their leaf can forward
  int levels = 0;               ///< required number (1, 2 or 3); 0: the number with the fewest switches
};

/// All switches of one level. `down` and `up` are the used ports of the fullest switch; for aggregation switches, which
/// may differ, `up` is an average, rounded up.
struct ClosLevel {
  std::string name;  ///< "leaf", "spine"; "leaf", "aggregation", "core"; "switch" if it is the only one
  std::int64_t switches = 0;
  int down = 0, up = 0;
};

struct ClosDesign {
  std::vector<ClosLevel> levels;  ///< from the hosts up
  std::int64_t hosts = 0, switches = 0;
  std::int64_t links = 0;       ///< number of cables between switches
  std::int64_t ports_left = 0;  ///< unused ports of all switches together
  int pods = 1;  ///< with three levels: number of groups of leaves with aggregation switches of their own
  double oversubscription = 1;  ///< hosts divided by uplinks in the fullest leaf, at least 1

  std::int64_t cables() const { return links + hosts; }  ///< including those to the hosts
};

constexpr int kMostSwitchPorts = 1024;

}  // namespace trainyard
