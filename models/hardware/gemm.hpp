#pragma once
#include <compare>
#include <cstdint>

#include "models/reading/document.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// `count` matrix products (m × k) · (k × n).
struct GemmShape {
  double m = 1, n = 1, k = 1, count = 1;
  bool in_turn = false;    ///< true: one kernel for each product, one after another; false: one kernel for all
  bool in_blocks = false;  ///< true: operands in fp8 have a scale for each block along the summed dimension
  auto operator<=>(const GemmShape&) const = default;
};

/// Kernel numbers of a `Work` from this one on stand for matrix products of a shape.
constexpr std::uint16_t kFirstShape = 32768;

/// Returns the kernel number of a shape, always the same within one process, or within a `TemporaryShapes`. Throws
/// UserError past 32,255 shapes.
std::uint16_t kernel_of(const GemmShape&);
/// Returns the shape of a kernel number. Throws InternalError if no shape has that number.
const GemmShape& shape_of(std::uint16_t kernel);

/// Constants of a library's matrix products on a chip, tile by tile. Shares are relative to the chip's datasheet.
struct GemmModel {
  bool is_given = false;      ///< false: the chip has no such model
  double peak = 1;            ///< share of the peak that an SM full of work sustains
  double memory = 1;          ///< share of the memory bandwidth
  BytesPerSecond l2_feed;     ///< rate from the L2 cache to all SMs together
  Seconds split;              ///< additional time of a product whose inner dimension is split over SMs
  double throttle = 0;        ///< relative slowdown of long products, because power limits the clock
  Seconds throttle_after{1};  ///< duration of a product after which half of `throttle` applies
  double exposed_output = 0;  ///< share of the time to write the output that does not overlap with arithmetic
  double exposed_most = 1;    ///< limit of that exposed time, as a multiple of the arithmetic's time
  double cached = 0;          ///< share of the L2 cache that keeps operands from one kernel to the next
  double fp8 = 1;             ///< ratio of the sustained share of the peak in fp8 to that in 16 bits
  double fp8_block = 1;       ///< ratio of the rate of products in fp8 with a scale for each block to those without
  double fp4 = 1;             ///< ratio of the sustained share of the peak in 4 bits to that in 16 bits
  double inner_step = 64;     ///< elements of the inner dimension that a tile processes at a time
  bool tiles_of_256 = false;  ///< pairs of SMs compute tiles of 256 × 256 (Blackwell)
  /// Ratio of the clock in runs of many minutes to the clock in the shortest tests: power limits it for products of any
  /// length. 0: not known; only long products slow down.
  double sustained = 0;
  double sustained_fp8 = 0;  ///< ratio of these clocks for products in fp8; 0: as `sustained`
  double sustained_fp4 = 0;  ///< ratio of these clocks for products in 4 bits, which take less power; 0: as `sustained`
  double clock = 1;          ///< ratio of the clock in long runs to that in the short tests of the fit
};

/// Reads `{peak, memory, l2_feed, split, throttle, throttle_after, exposed_output, exposed_most, cached, inner_step,
/// tiles_of_256}`. Throws UserError with the place.
GemmModel read_gemm_model(Fields&);

/// The chip that the products run on.
struct GemmChip {
  FlopsPerSecond peak;
  BytesPerSecond memory_bandwidth;
  Bytes l2;
  int sms = 1;
};

struct GemmTime {
  Seconds total;           ///< without the kernel launch
  bool by_memory = false;  ///< the traffic to memory takes longer than the arithmetic
};

/// Time of the best of all tilings: waves of tiles over the SMs, fed by the L2 cache, while memory traffic goes on. The
/// inner dimension is split if too few tiles would leave SMs idle. `element`: size of one element of an operand; an
/// element of the output has 2 bytes or the operand's size, whichever is more.
GemmTime gemm_time(const GemmModel&, const GemmChip&, const GemmShape&, Bytes element);
/// Returns the time of the product whose shape has this kernel number. Results are cached, because layers and ranks
/// share their shapes.
GemmTime gemm_time(const GemmModel&, const GemmChip&, std::uint16_t kernel, Bytes element);

}  // namespace trainyard
