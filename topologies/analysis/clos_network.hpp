#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

struct ClosRequest {
  std::int64_t hosts = 0;       ///< ports of NICs, all of the rate of a switch port
  int ports = 0;                ///< of every switch
  double oversubscription = 1;  ///< r ≥ 1: what hosts offer to what their leaf can pass on
  int levels = 0;               ///< exactly so many (1, 2 or 3); 0: those with the fewest switches
};

/// All switches of one level. Ports in use are those of the fullest switch; the links up of an aggregation switch, which
/// may differ, are an average, rounded up.
struct ClosLevel {
  std::string name;  ///< "leaf", "spine"; "leaf", "aggregation", "core"; "switch" alone
  std::int64_t switches = 0;
  int down = 0, up = 0;
};

struct ClosDesign {
  std::vector<ClosLevel> levels;  ///< from the hosts up
  std::int64_t hosts = 0, switches = 0;
  std::int64_t links = 0;       ///< cables between switches
  std::int64_t ports_left = 0;  ///< of all switches together
  int pods = 1;                 ///< of three levels: leaves with aggregation switches of their own
  double oversubscription = 1;  ///< of the fullest leaf: hosts to uplinks, at least 1

  std::int64_t cables() const { return links + hosts; }  ///< with those to the hosts
};

constexpr int kMostSwitchPorts = 1024;

}  // namespace trainyard
