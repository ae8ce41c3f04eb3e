#pragma once
#include <array>
#include <string>

#include "models/catalog.hpp"
#include "sim/op.hpp"

namespace trainyard {

enum class Precision : std::uint8_t { fp64, fp32, tf32, fp16, bf16, fp8, int8 };
constexpr int kPrecisions = 7;
Precision parse_precision(const std::string&);  ///< throws UserError naming the precisions
const char* name_of(Precision);
/// Bytes of one element in memory (tf32 is stored as fp32).
Bytes element_size(Precision);

/// Kinds of kernel with an efficiency each; `Work::kernel` holds one.
enum class Kernel : std::uint16_t {
  gemm,
  attention,
  attention_backward,
  elementwise,
  optimizer,
  embedding,
  convolution
};
constexpr int kKernels = 7;
const char* name_of(Kernel);

/// One GPU: what the roofline needs. Units: SI.
struct Gpu {
  std::string name;
  std::string architecture;
  std::string measured_as;  ///< its name in the tables of measured kernels; empty where there are none
  std::array<FlopsPerSecond, kPrecisions> peak{};  ///< dense; 0 where the chip lacks the precision
  BytesPerSecond memory_bandwidth;
  Bytes memory_capacity;
  Seconds kernel_launch;  ///< floor of a kernel, back to back in one stream
  struct Efficiency {
    double flops = 1;   ///< share of the peak that a large kernel of this kind sustains
    double memory = 1;  ///< share of the memory bandwidth
  };
  std::array<Efficiency, kKernels> efficiency{};
  /// Relative speed of `kernel work` while a transfer runs on the same GPU, and of transfers while kernels run.
  double compute_while_communicating = 1;
  double communication_while_computing = 1;
  BytesPerSecond nvlink;  ///< per direction, 0 where the chip has none
  BytesPerSecond pcie;    ///< per direction
  Sources sources;
};

/// Reads and checks an entry (rates > 0, efficiencies in (0, 1]; a convolution's is a gemm's
/// unless it is given). Only `peak` (one precision or more),
/// `memory_bandwidth` and `memory_capacity` are required; what else is left out is ideal (no launch time, efficiency 1,
/// no interference) or not there (`nvlink`, `pcie`). Throws UserError with the place.
Gpu read_gpu(const Node& entry);

/// Roofline (Williams, Waterman & Patterson 2009) with a launch floor:
/// launch + max(FLOPs / (peak × efficiency), bytes / (bandwidth × efficiency)).
/// Throws UserError where the chip lacks the precision of work with FLOPs > 0.
Seconds kernel_time(const Gpu&, const Work&);

}  // namespace trainyard
