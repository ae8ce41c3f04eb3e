#pragma once
#include <string>

#include "models/reading/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A switch between nodes. Units: SI.
struct NetworkSwitch {
  std::string name;
  int ports = 0;
  BytesPerSecond rate;  ///< of a port, per direction; all ports at once
  Picoseconds latency;  ///< from port to port, without queues
  Sources sources;
};

/// Reads and checks an entry of the catalog's switches: `ports`, `rate`, `latency`. Throws UserError with the place.
NetworkSwitch read_network_switch(const Node& entry);

}  // namespace trainyard
