#pragma once
#include <array>
#include <string>

#include "models/hardware/gpu.hpp"
#include "models/hardware/power.hpp"
#include "models/reading/catalog.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// One CPU socket with its memory. Units: SI. A rate that is left out sets no limit. Without a peak it cannot compute.
struct Cpu {
  std::string name;
  int cores = 0;                    ///< 0: not stated
  int lanes = 0;                    ///< PCIe lanes for devices and switches; 0: no limit
  BytesPerSecond memory_bandwidth;  ///< reads and writes together; 0: no limit
  /// Rate of copies between the buffers (user space, kernel, adapter) of one path; 0: they take no time.
  BytesPerSecond copy_rate;
  double thread_speed = 1;  ///< speed of one thread, which launches kernels, as a multiple of a Xeon Platinum 8480+'s
  std::array<FlopsPerSecond, kPrecisions> peak{};
  PowerDraw power;  ///< power of a socket, without its memory
  Sources sources;
};

/// Reads and checks an entry of the catalog's cpus. Throws UserError with the place.
Cpu read_cpu(const Node& entry);

/// Time of host work: the longer of arithmetic and memory traffic. Throws UserError for FLOPs in a precision for which
/// no peak is stated.
Seconds host_time(const Cpu&, const Work&);

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

/// A switch between nodes. Units: SI.
struct NetworkSwitch {
  std::string name;
  int ports = 0;
  BytesPerSecond rate;  ///< rate of each port, per direction; all ports reach it at once
  Picoseconds latency;  ///< from port to port, without queues
  PowerDraw power;      ///< power of the whole switch, without transceivers
  int rack_units = 0;   ///< height in units of a rack; 0: not stated
  bool sharp = false;   ///< sums the data that pass through it (SHARP from its second version on)
  Sources sources;
};

/// Reads and checks an entry of the catalog's switches: `ports`, `rate`, `latency`, `power`, `sharp`, `rack_units`. Throws
/// UserError with the place.
NetworkSwitch read_network_switch(const Node& entry);

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
  bool sharp = false;        ///< an InfiniBand adapter, whose data switches can sum (SHARP)
  PowerDraw power;
  Sources sources;
};

/// Reads and checks an entry of the catalog's hcas: `rate`, `efficiency`, `latency`, `transport: rdma | tcp | grpc`,
/// `nccl_network`, `sharp`, `power`, `pcie: {generation, lanes}`. Throws UserError with the place.
Hca read_hca(const Node& entry);

/// Reads `rate`, `efficiency` (the rate of the network relative to that of its adapters, such as the bus bandwidth of an
/// all-reduce test over the rate of the adapters; default: 1), `latency`, `transport`, `nccl_network`, `sharp` and `power`.
/// gRPC is TCP with the copies that TensorFlow's calls make in user space.
void read_hca_figures(Hca&, Fields&);

}  // namespace trainyard
