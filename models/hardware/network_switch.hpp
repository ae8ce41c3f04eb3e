#pragma once
#include <string>

#include "models/hardware/power.hpp"
#include "models/reading/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A switch between nodes. Units: SI.
struct NetworkSwitch {
  std::string name;
  int ports = 0;
  BytesPerSecond rate;  ///< rate of each port, per direction; all ports reach it at once
  Picoseconds latency;  ///< from port to port, without queues
  PowerDraw power;      ///< power of the whole switch, without transceivers
  bool sharp = false;   ///< sums the data that pass through it (SHARP from its second version on)
  Sources sources;
};

/// Reads and checks an entry of the catalog's switches: `ports`, `rate`, `latency`, `power`, `sharp`. Throws UserError
/// with the place.
NetworkSwitch read_network_switch(const Node& entry);

}  // namespace trainyard
