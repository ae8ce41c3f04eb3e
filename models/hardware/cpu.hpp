#pragma once
#include <array>
#include <string>

#include "models/hardware/gpu.hpp"

namespace trainyard {

/// One CPU socket with its memory: what data on its way costs there, and what the host itself computes. Units: SI.
/// What is left out is no limit, but for arithmetic: without a peak there is none.
struct Cpu {
  std::string name;
  int cores = 0;                    ///< 0: not said
  int lanes = 0;                    ///< PCIe lanes for devices and switches; 0: no limit
  BytesPerSecond memory_bandwidth;  ///< reads and writes together; 0: no limit
  /// What one path's copies between buffers (user space, kernel, adapter) move, whoever makes them; 0: no time.
  BytesPerSecond copy_rate;
  std::array<FlopsPerSecond, kPrecisions> peak{};
  Sources sources;
};

/// Reads and checks an entry of the catalog's cpus. Throws UserError with the place.
Cpu read_cpu(const Node& entry);

/// Time of host work: the longer of arithmetic and memory. Throws UserError for FLOPs in a precision without a peak.
Seconds host_time(const Cpu&, const Work&);

}  // namespace trainyard
