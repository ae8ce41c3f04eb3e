#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "topologies/analysis/clos_design.hpp"

namespace trainyard {

/// Positions of racks, and routes of cables. Lengths in metres.
struct FloorPlan {
  int hosts_of_rack = 0;    ///< number of ports of NICs in a rack, one above the other
  int racks_of_row = 10;    ///< assumed
  double rack_width = 0.6;  ///< EIA-310 racks are mostly 600 mm wide
  /// Distance between rows: half of the seven tiles of 610 mm in which a cold and a hot aisle repeat (ASHRAE, TIA-942;
  /// unverified).
  double row_pitch = 2.1;
  double rack_height = 2;  ///< 42 units of 44.45 mm, and a frame
  double to_tray = 0.5;    ///< from the top of a rack up to the tray over all racks; assumed
  double slack = 1;        ///< total slack of each cable; assumed
  /// Longest passive copper cable at 50 Gbit/s a lane (IEEE 802.3cd, CR: 3 m; unverified). Longer cables are optical.
  double copper_reach = 3;
  /// Lengths that are sold, in ascending order. Longer cables come in multiples of the last length.
  std::vector<double> lengths{0.5, 1, 1.5, 2, 2.5, 3, 5, 7, 10, 15, 20, 30, 50, 100};
};

/// Cables of one length.
struct CablesOfLength {
  bool optical = false;
  double length = 0;  ///< m, as sold
  std::int64_t count = 0;
};

struct CablePlan {
  std::int64_t racks = 0, rows = 0;    ///< that contain hosts
  std::vector<CablesOfLength> cables;  ///< sorted by length
  double metres(bool optical) const;
  std::int64_t count(bool optical) const;
};

/// A network of switches in levels, as its cables need it. Hosts are ports of NICs, numbered along the racks.
struct CabledNetwork {
  std::int64_t hosts = 0, leaves = 0;
  std::int64_t links = 0;    ///< cables between switches
  int levels = 1;            ///< 1: the leaves alone; 3: leaves, aggregation switches of pods, and cores
  std::int64_t uplinks = 0;  ///< cables from each leaf to its pod; of use with three levels only
  std::int64_t pods = 1;     ///< groups of leaves with aggregation switches of their own; of use with three levels only
  std::function<std::int64_t(std::int64_t)> leaf_of_host;
};

/// Describes a folded Clos, whose leaves share the hosts evenly and in order. The design must outlive the description.
CabledNetwork cabled_network(const ClosDesign&);

/// Plans the cables of a network, each as long as necessary. Hosts fill one rack after the other, and racks fill rows.
/// A leaf stands on top of the rack of its middle host. Aggregation switches stand on top of the rack in the middle of
/// their pod, spines and cores in the middle of the floor. A cable within a rack goes up or down. Other cables go up to
/// the tray, along rows and across them, and down. Throws UserError for sizes below 1 and invalid lengths.
CablePlan plan_cables(const CabledNetwork&, const FloorPlan&);

}  // namespace trainyard
