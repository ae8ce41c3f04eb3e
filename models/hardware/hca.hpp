#pragma once
#include <string>

#include "models/hardware/power.hpp"
#include "models/reading/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// One port of a network adapter. Units: SI.
struct Hca {
  std::string name;
  BytesPerSecond rate;       ///< per direction
  Picoseconds latency;       ///< host to wire, each side
  bool tcp = false;          ///< true: through the kernel's sockets; false: RDMA
  int generation = 0;        ///< PCIe generation; 0: not stated (an adapter of a cloud)
  int lanes = 0;             ///< PCIe lanes
  std::string nccl_network;  ///< catalog entry for NCCL over it; "": that of InfiniBand or TCP
  PowerDraw power;
  Sources sources;
};

/// Reads and checks an entry of the catalog's hcas: `rate`, `latency`, `transport: rdma | tcp`, `nccl_network`,
/// `power`, `pcie: {generation, lanes}`. Throws UserError with the place.
Hca read_hca(const Node& entry);

}  // namespace trainyard
