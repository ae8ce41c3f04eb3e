#pragma once
#include <string>

#include "models/hardware/power.hpp"
#include "models/reading/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// A network adapter, by one of its ports. Units: SI.
struct Hca {
  std::string name;
  BytesPerSecond rate;       ///< per direction
  Picoseconds latency;       ///< host to wire, each side
  bool tcp = false;          ///< through the kernel's sockets; false: RDMA
  int generation = 0;        ///< of its PCIe; 0: not stated (an adapter of a cloud)
  int lanes = 0;             ///< of PCIe
  std::string nccl_network;  ///< of the catalog: how NCCL does over it; "": as over InfiniBand or TCP
  PowerDraw power;
  Sources sources;
};

/// Reads and checks an entry of the catalog's hcas: `rate`, `latency`, `transport: rdma | tcp`, `nccl_network`, `power`, `pcie:
/// {generation, lanes}`. Throws UserError with the place.
Hca read_hca(const Node& entry);

}  // namespace trainyard
