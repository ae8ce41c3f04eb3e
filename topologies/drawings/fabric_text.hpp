#pragma once
#include <string>
#include <vector>

#include "topologies/cluster.hpp"

namespace trainyard {

/// Switches between the nodes by their distance from the fabric's ends (HCAs or chips). Wires that are down, and
/// switches that nothing reaches, are not there.
struct SwitchLevel {
  int switches = 0;
  std::string name;                  ///< of the only one, which may stand for a group ("spines"); else of its kind
  int links_down = 0, links_up = 0;  ///< cables, not directions; ends are below level 1
  int links_across = 0;              ///< between switches of this level
  BytesPerSecond slowest_down, slowest_up;  ///< 0 without such links
  BytesPerSecond fastest_down, fastest_up;
};
std::vector<SwitchLevel> switch_levels(const DeviceGraph&);
std::string switches_text(const SwitchLevel&);  ///< "spines", "8 switches (leaf)"

/// One part of a fabric, in words: a level of switches, or all of a torus.
struct FabricRow {
  std::string title;   ///< "level 1: 8 switches (leaf)", "torus 4 x 4 of nodes"
  std::string detail;  ///< "64 links down to HCAs at 12.5 GB/s, 2 up at 400 GB/s"
  std::string up;      ///< what joins it to the next row: "64 links"; "" for none
  bool note = false;   ///< nothing that is there: how messages find their way, what is taken out
};
/// A Clos level by level, others by what they are made of; then routing, and what is down. Empty for one node.
std::vector<FabricRow> fabric_rows(const DeviceGraph&, const ClusterSpec&);
/// The rows, a line each.
std::string fabric_lines(const DeviceGraph&, const ClusterSpec&);

/// "12.5 GB/s", or the slowest and the fastest.
std::string rates_text(BytesPerSecond slowest, BytesPerSecond fastest);
/// Rates of a cable as its first device sees it: "12.5 GB/s", "reads 3.00 GB/s, writes 1.00 GB/s", with "half duplex"
/// where both directions share it, and "down" where it is.
std::string cable_text(const DeviceGraph&, LinkId wire);

}  // namespace trainyard
