#pragma once
#include <functional>
#include <string>
#include <vector>

#include "topologies/fabric.hpp"
#include "topologies/fabrics/fabric_view.hpp"

// Counts of a fabric's switches and cables, which fabrics turn into rows of text.
namespace trainyard {

/// Number of cables (not directions), and the range of their rates; 0 if there are none.
struct CableCount {
  int cables = 0;
  BytesPerSecond slowest, fastest;
  void add(BytesPerSecond rate);
  std::string text(const std::string& where) const;  ///< "8 links to HCAs at 12.5 GB/s"
};

/// Switches between the nodes by their distance from the fabric's ends (HCAs or chips). Wires that are down, and
/// switches that cannot be reached, do not count.
struct SwitchLevel {
  int switches = 0;
  std::string name;      ///< name of the only switch, which may stand for a group ("spines"), or of the level ("leaf")
  CableCount down, up;   ///< ends are below level 1
  int links_across = 0;  ///< between switches of this level
};
std::vector<SwitchLevel> switch_levels(const FabricView&);
std::string switches_text(const SwitchLevel&);  ///< "spines", "8 switches (leaf)"

/// One row for each level, from the ends up.
std::vector<FabricRow> level_rows(const FabricView&);

/// Counts the cables of the fabric that are up, by the result of `kind_of` for their ends. Cables of kind −1 do not
/// count.
std::vector<CableCount> count_cables(const FabricView&, std::size_t kinds,
                                     const std::function<int(DeviceId, DeviceId)>& kind_of);
/// Counts the cables between ends and switches, then those between switches.
std::vector<CableCount> cables_of(const FabricView&);
/// Adds the border switch, if there is one.
void add_border_row(const FabricView&, std::vector<FabricRow>&);

bool is_switch(const FabricView&, DeviceId);
bool is_border(const FabricView&, DeviceId);  ///< cables to other islands end there
int index_of(const FabricView&, DeviceId);

}  // namespace trainyard
