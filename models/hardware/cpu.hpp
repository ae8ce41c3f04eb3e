#pragma once
#include <array>
#include <string>

#include "models/hardware/gpu.hpp"

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

}  // namespace trainyard
