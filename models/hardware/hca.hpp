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
  double efficiency = 1;     ///< share of `rate` that a test on the machine reached
  Picoseconds latency;       ///< host to wire, each side
  bool tcp = false;          ///< true: through the kernel's sockets; false: RDMA
  bool grpc = false;         ///< true: TCP below TensorFlow's gRPC
  int generation = 0;        ///< PCIe generation; 0: not stated (an adapter of a cloud)
  int lanes = 0;             ///< PCIe lanes
  std::string nccl_network;  ///< catalog entry for NCCL over it; "": that of InfiniBand or TCP
  PowerDraw power;
  Sources sources;
};

/// Reads and checks an entry of the catalog's hcas: `rate`, `efficiency`, `latency`, `transport: rdma | tcp | grpc`,
/// `nccl_network`, `power`, `pcie: {generation, lanes}`. Throws UserError with the place.
Hca read_hca(const Node& entry);

/// Reads `rate`, `efficiency` (the rate of the network relative to that of its adapters, such as the bus bandwidth of an
/// all-reduce test over the rate of the adapters; default: 1), `latency`, `transport`, `nccl_network` and `power`. gRPC
/// is TCP with the copies that TensorFlow's calls make in user space.
void read_hca_figures(Hca&, Fields&);

}  // namespace trainyard
