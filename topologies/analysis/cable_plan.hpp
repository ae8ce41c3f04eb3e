#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "topologies/analysis/clos_design.hpp"

namespace trainyard {

/// Where racks stand, and how cables go. Lengths in metres.
struct FloorPlan {
  int hosts_of_rack = 0;    ///< ports of NICs in a rack, one above the other
  int racks_of_row = 10;    ///< assumed
  double rack_width = 0.6;  ///< EIA-310 racks are mostly 600 mm wide
  /// From row to row: half of the seven tiles of 610 mm in which a cold and a hot aisle repeat (ASHRAE, TIA-942;
  /// unverified).
  double row_pitch = 2.1;
  double rack_height = 2;  ///< 42 units of 44.45 mm, and a frame
  double to_tray = 0.5;    ///< from the top of a rack up to the tray over all racks; assumed
  double slack = 1;        ///< of each cable, both ends together; assumed
  /// Passive copper goes so far at 50 Gbit/s a lane (IEEE 802.3cd, CR: 3 m; unverified); longer cables are optical.
  double copper_reach = 3;
  /// Lengths that are sold, rising; longer ones come in whole multiples of the last.
  std::vector<double> lengths{0.5, 1, 1.5, 2, 2.5, 3, 5, 7, 10, 15, 20, 30, 50, 100};
};

/// Cables of one length.
struct CablesOfLength {
  bool optical = false;
  double length = 0;  ///< m, as sold
  std::int64_t count = 0;
};

struct CablePlan {
  std::int64_t racks = 0, rows = 0;    ///< of hosts
  std::vector<CablesOfLength> cables;  ///< by length
  double metres(bool optical) const;
  std::int64_t count(bool optical) const;
};

/// The cables of a folded Clos, each as long as it must be. Hosts fill racks one after the other, racks rows. Leaves share
/// the hosts evenly, and stand on top of the rack of the middle one of theirs, aggregation switches there in the middle of
/// their pod, spines and cores in the middle of the floor. A cable within a rack goes up or down; others go up to the tray, along
/// rows and across them, and down. Throws UserError for sizes below 1, and lengths that are none.
CablePlan plan_cables(const ClosDesign&, const FloorPlan&);

}  // namespace trainyard
