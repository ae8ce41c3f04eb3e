#pragma once
#include <array>
#include <string>

#include "models/hardware/attention_time.hpp"
#include "models/hardware/power.hpp"
#include "models/reading/catalog.hpp"
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
  convolution,
  convolution_3x3  ///< of stride 1 in fp32: libraries may do it with fewer multiplications than are counted
};
constexpr int kKernels = 8;
const char* name_of(Kernel);
/// The kind of a numbered kernel of a GPU: matrix products of a shape are gemm, attention of a shape is attention.
bool is_kernel(std::uint16_t number);
Kernel kind_of(std::uint16_t number);

/// TPUs have no NVLink and join by links from chip to chip; an ASIC is another chip made for one purpose, an FPGA is
/// configured for it (`Gpu::reconfigure`). In all else they are read alike.
enum class ChipKind : std::uint8_t { gpu, tpu, asic, fpga };
const char* name_of(ChipKind);

/// Counted over executed multiplications of a 3 × 3 convolution: 4 by Winograd's F(4x4, 3x3), the most that cuDNN has.
inline constexpr double kMostCountedFlops = 4;

/// One chip: what the roofline needs, and what else its datasheet says. Units: SI; 0 where it does not say.
struct Gpu {
  std::string name;
  ChipKind kind = ChipKind::gpu;
  std::string architecture;
  std::string measured_as;  ///< its name in the tables of measured kernels; empty where there are none
  std::array<FlopsPerSecond, kPrecisions> peak{};  ///< dense; 0 where the chip lacks the precision
  BytesPerSecond memory_bandwidth;
  Bytes memory_capacity;
  Seconds kernel_launch;  ///< floor of a kernel, back to back in one stream
  struct Efficiency {
    /// Share of the peak that a large kernel of this kind sustains, by the FLOPs that are counted. Above 1 for
    /// convolutions whose library computes fewer (Winograd's minimal filtering of 3 × 3: Lavin & Gray 2016).
    double flops = 1;
    double memory = 1;  ///< share of the memory bandwidth
  };
  std::array<Efficiency, kKernels> efficiency{};
  GemmModel gemm;            ///< matrix products by their shape; not given: by `efficiency` alone
  AttentionModel attention;  ///< flash attention by its shape; not given: by `efficiency` alone
  /// Clock of runs of minutes, over that of a short test: power holds it down. 0: as far as it does in long products of
  /// such tests, 1 / (1 + `GemmModel::throttle`).
  double sustained_clock = 0;
  /// Relative speed of `kernel work` while a transfer runs on the same GPU, and of transfers while kernels run.
  double compute_while_communicating = 1;
  double communication_while_computing = 1;
  BytesPerSecond nvlink;  ///< per direction, 0 where the chip has none
  BytesPerSecond pcie;    ///< per direction
  struct ChipLinks {
    int count = 0;
    BytesPerSecond rate;  ///< of one link, per direction
  };
  ChipLinks chip_links;  ///< to neighbours, by no switch and no NVLink: ICI of TPUs, Infinity Fabric
  int sms = 0;           ///< SMs; compute units of AMD, TensorCores of TPUs
  Bytes l2;
  Hertz clock;        ///< highest boost; `peak` may be stated at another
  PowerDraw power;    ///< busy: what the board may draw
  Watts power_limit;  ///< that it is held to (nvidia-smi --power-limit); 0: `power.busy`
  /// Under a limit the clock goes with so much of a power of what may be drawn above idle: 1/3 where the voltage follows
  /// the clock, 1 where it is at its floor.
  double clock_by_power = 0.5;
  Seconds reconfigure;  ///< of an FPGA: until it is what a training needs; 0: it is that already
  Sources sources;
};

/// Reads and checks an entry (rates > 0, efficiencies in (0, 1], those of a convolution's FLOPs up to 4, idle power below
/// busy). Only `peak` (one precision or more), `memory_bandwidth` and `memory_capacity` are required; what else is left
/// out is ideal (no launch time, efficiency 1 but for a convolution's, which is then a gemm's, and convolution_3x3's,
/// which is then a convolution's; no interference), not there (`nvlink`, `pcie`,
/// `chip_links`) or not stated (`sms`, `l2`, `clock`, `power`, and of an FPGA `reconfigure`). A `power_limit` is above the idle
/// and at most the busy power. Throws UserError with the place.
Gpu read_gpu(const Node& entry);

/// The same chip held to its `power_limit`: FLOPs take as much longer as the clock is slower, memory as long. It then draws
/// that limit when busy, and has none.
Gpu within_power_limit(Gpu);

/// The same chip in long runs: FLOPs of matrix products, convolutions and attention take 1 / `sustained_clock` as long,
/// or of matrix products what `GemmModel::sustained` says.
Gpu sustained(Gpu);

/// Roofline (Williams, Waterman & Patterson 2009) with a launch floor:
/// launch + max(FLOPs / (peak × efficiency), bytes / (bandwidth × efficiency)). A matrix product takes launch +
/// `gemm_time` of its shape where the chip has a model of them, and what it moves beyond its operands and its result
/// comes on top; attention of a shape takes launch + `attention_time` where the chip has a model of it.
/// Throws UserError where the chip lacks the precision of work with FLOPs > 0.
Seconds kernel_time(const Gpu&, const Work&);
/// Does such a kernel take as long as its traffic to the GPU's memory, and not as its arithmetic?
bool bound_by_memory(const Gpu&, const Work&);

}  // namespace trainyard
