#pragma once
#include <string>

#include "models/reading/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A drive, or a store that nodes share over the network. Units: SI.
struct Storage {
  std::string name;
  BytesPerSecond read, write;  ///< of large sequential requests
  Picoseconds latency;         ///< of one read
  int lanes = 0;               ///< PCIe lanes of a drive; 0: reached by SATA or over the network
  Bytes capacity;              ///< 0: not stated, or as much as is paid for
  double iops = 0;             ///< requests a second; 0: no limit of their own
  Seconds seek;                ///< that a read elsewhere than the last keeps all others waiting; 0: no head moves
  Sources sources;
};

/// Reads and checks an entry of the catalog's storages: `read`, `write` (default: as fast), `latency`, `lanes`,
/// `capacity`, `iops`, `seek`. Throws UserError with the place.
Storage read_storage(const Node& entry);

}  // namespace trainyard
