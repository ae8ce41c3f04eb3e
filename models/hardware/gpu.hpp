#pragma once
#include <algorithm>
#include <array>
#include <string>

#include "models/hardware/attention_time.hpp"
#include "models/hardware/power.hpp"
#include "models/reading/catalog.hpp"
#include "sim/op.hpp"

namespace trainyard {

enum class Precision : std::uint8_t { fp64, fp32, tf32, fp16, bf16, fp8, fp6, fp4, int8 };
constexpr int kPrecisions = 9;
Precision parse_precision(const std::string&);  ///< throws UserError naming the precisions
const char* name_of(Precision);
/// Bytes of one element in memory, without scales of blocks (tf32 is stored as fp32).
Bytes element_size(Precision);

/// Kinds of kernel, each with its own efficiency. `Work::kernel` holds one.
enum class Kernel : std::uint16_t {
  gemm,
  attention,
  attention_backward,
  elementwise,
  optimizer,
  embedding,
  convolution,
  convolution_3x3,  ///< stride 1, in fp32: libraries may execute fewer multiplications than are counted
  scan,             ///< state-space layers and linear attention: short causal convolutions and chunked scans
  scan_backward,    ///< gradients of the scans and convolutions of Mamba-2
  strided           ///< eager elementwise kernels on strided, broadcast or mixed operands: each load has one element
};
constexpr int kKernels = 11;
const char* name_of(Kernel);
/// Is this the number of a GPU kernel, with or without a shape?
bool is_kernel(std::uint16_t number);
/// Returns the kind of a GPU kernel by its number. Matrix products of a shape are `gemm`, attention of a shape is
/// `attention`.
Kernel kind_of(std::uint16_t number);

/// A TPU has no NVLink, but links from chip to chip. An ASIC is any other chip made for one purpose; an FPGA is
/// configured for it (`Gpu::reconfigure`). The other fields of the kinds are read alike.
enum class ChipKind : std::uint8_t { gpu, tpu, asic, fpga };
const char* name_of(ChipKind);

/// Largest ratio of counted to executed multiplications of a 3 × 3 convolution: 4 by Winograd's F(4x4, 3x3), the most
/// that cuDNN has.
inline constexpr double kMostCountedFlops = 4;

/// One chip: the figures of the roofline and the rest of its datasheet. Units: SI. 0: not stated.
struct Gpu {
  std::string name;
  ChipKind kind = ChipKind::gpu;
  std::string architecture;
  std::string measured_as;                         ///< its name in the tables of measured kernels; empty: not measured
  std::array<FlopsPerSecond, kPrecisions> peak{};  ///< dense; 0: the chip lacks the precision
  BytesPerSecond memory_bandwidth;
  Bytes memory_capacity;
  Bytes driver_memory;     ///< part of the capacity that the driver keeps from programs
  Seconds kernel_launch;   ///< shortest time of a kernel, back to back in one stream
  double host_launch = 1;  ///< host's time to launch a kernel by the chip's runtime, as a multiple of that by CUDA
  struct Efficiency {
    /// Share of the peak that a large kernel of this kind sustains, in counted FLOPs. It is above 1 for convolutions
    /// whose library executes fewer FLOPs (Winograd's minimal filtering of 3 × 3: Lavin & Gray 2016).
    double flops = 1;
    double memory = 1;  ///< share of the memory bandwidth
  };
  std::array<Efficiency, kKernels> efficiency{};
  GemmModel gemm;            ///< times of matrix products by shape; not given: `efficiency` decides
  AttentionModel attention;  ///< times of flash attention by shape; not given: `efficiency` decides
  /// Ratio of the clock in runs of minutes to the clock in a short test; power limits it. 0: the ratio is
  /// 1 / (1 + `GemmModel::throttle`), as for long products in short tests.
  double sustained_clock = 0;
  /// Ratio of the rate of flash attention in such runs to that in a short test, of the attention kernel in use. 0: as
  /// `sustained_clock`.
  double sustained_attention = 0;
  /// Relative speed of kernels while a transfer runs on the same GPU, and of transfers while kernels run.
  double compute_while_communicating = 1;
  double communication_while_computing = 1;
  BytesPerSecond nvlink;  ///< per direction; 0: the chip has none
  BytesPerSecond pcie;    ///< per direction
  struct ChipLinks {
    int count = 0;
    BytesPerSecond rate;  ///< rate of one link, per direction
  };
  ChipLinks chip_links;  ///< links to neighbours without switch or NVLink: ICI of TPUs, Infinity Fabric
  int sms = 0;           ///< number of SMs, of AMD's compute units or of a TPU's TensorCores
  Bytes l2;
  Hertz clock;        ///< highest boost; `peak` may be stated at another
  PowerDraw power;    ///< `busy` is the most that the board may draw
  Watts power_limit;  ///< limit set for the board (nvidia-smi --power-limit); 0: `power.busy`
  /// Exponent of the clock under a power limit: the clock is proportional to the power above idle raised to it. It is
  /// 1/3 if the voltage follows the clock, and 1 if the voltage is at its lowest.
  double clock_by_power = 0.5;
  Seconds reconfigure;  ///< time to configure an FPGA for a training; 0: it is configured already
  Sources sources;

  /// Memory that programs can have.
  Bytes usable_memory() const { return std::max(Bytes{}, memory_capacity - driver_memory); }
};

/// Reads and checks an entry: rates > 0, efficiencies in (0, 1] (up to 4 for the FLOPs of a convolution), idle power
/// below busy power, and a `power_limit` above the idle and at most the busy power. Only `peak` (at least one
/// precision), `memory_bandwidth` and `memory_capacity` are required. A key that is left out means one of these:
/// - ideal: no launch time, no interference, efficiency 1 (except that convolutions take the efficiency of gemm,
///   convolution_3x3 that of convolutions, scans and strided that of elementwise, and scan_backward that of scans);
/// - absent: `nvlink`, `pcie`, `chip_links`;
/// - not stated: `sms`, `l2`, `clock`, `power`, and an FPGA's `reconfigure`.
/// Throws UserError with the place.
Gpu read_gpu(const Node& entry);

/// Returns the chip under its `power_limit`: FLOPs slow down with the clock, memory does not. The returned chip draws
/// that limit when busy, and its own `power_limit` is 0.
Gpu within_power_limit(Gpu);

/// Returns the chip as it is in long runs: FLOPs of matrix products, convolutions and attention take
/// 1 / `sustained_clock` times as long; for matrix products `GemmModel::sustained` comes first if it is stated, and for
/// attention `sustained_attention`.
Gpu sustained_gpu(Gpu);

/// Returns the time of a kernel by the roofline (Williams, Waterman & Patterson 2009) plus the launch:
/// launch + max(FLOPs / (peak × efficiency), bytes / (bandwidth × efficiency)). If the chip has a `gemm` model, a
/// matrix product takes launch + `gemm_time` of its shape, and the bytes that it moves besides operands and result are
/// added. If the chip has an `attention` model, attention of a shape takes launch + `attention_time`. Throws UserError
/// if the work has FLOPs in a precision that the chip lacks.
Seconds kernel_time(const Gpu&, const Work&);
/// Returns the part of `kernel_time` that faster memory would shorten: all of it but the launch if the traffic takes
/// longer than the arithmetic, else what the traffic adds to the arithmetic.
Seconds memory_time(const Gpu&, const Work&);

}  // namespace trainyard
