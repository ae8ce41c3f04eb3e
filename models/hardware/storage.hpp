#pragma once
#include <string>

#include "models/reading/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A drive, or a store that nodes share over the network. Units: SI.
struct Storage {
  std::string name;
  BytesPerSecond read, write;  ///< rates of large sequential requests
  Picoseconds latency;         ///< latency of one read
  int lanes = 0;               ///< PCIe lanes of a drive; 0: reached by SATA or over the network
  Bytes capacity;              ///< 0: not stated, or no limit
  double iops = 0;             ///< requests a second; 0: no limit of their own
  Seconds seek;  ///< time to move the head for a read at another position; all other reads wait; 0: no head
  Sources sources;
};

/// Reads and checks an entry of the catalog's storages: `read`, `write` (default: as fast), `latency`, `lanes`,
/// `capacity`, `iops`, `seek`. Throws UserError with the place.
Storage read_storage(const Node& entry);

}  // namespace trainyard
