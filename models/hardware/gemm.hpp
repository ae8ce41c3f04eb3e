#pragma once
#include <compare>
#include <cstdint>

#include "models/reading/document.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// `count` products: (m × k) · (k × n).
struct GemmShape {
  double m = 1, n = 1, k = 1, count = 1;
  bool in_turn = false;  ///< a kernel each, one after another; else one kernel, whose tiles fill the SMs together
  auto operator<=>(const GemmShape&) const = default;
};

/// Numbers from here on stand for matrix products of a shape, where a `Work` has the number of a kernel.
constexpr std::uint16_t kFirstShape = 32768;

/// The number of a shape, the same whenever it is asked for in this process. Throws UserError past 32,767 shapes.
std::uint16_t kernel_of(const GemmShape&);
/// Throws InternalError for a number that stands for none.
const GemmShape& shape_of(std::uint16_t kernel);

/// What a library's matrix products do on a chip, tile by tile. Shares are of the chip's datasheet.
struct GemmModel {
  bool given = false;
  double peak = 1;            ///< share of the peak that an SM full of work sustains
  double memory = 1;          ///< share of the memory bandwidth
  BytesPerSecond l2_feed;     ///< from the L2 cache to all SMs
  Seconds split;              ///< of a product whose inner dimension is split over SMs
  double throttle = 0;        ///< long products run so much longer, since power holds the clock down …
  Seconds throttle_after{1};  ///< … half of it after this long
  double exposed_output = 0;  ///< share of the output's writing that hides behind nothing …
  double exposed_most = 1;    ///< … and lasts at most so many times the arithmetic
  double cached = 0;          ///< share of the L2 cache in which operands stay between kernels
  double fp8 = 1;             ///< share of the peak in fp8 over that in 16 bits
  double inner_step = 64;     ///< elements of the inner dimension by which tiles go through it
  bool tiles_of_256 = false;  ///< tiles of 256 × 256 by pairs of SMs (Blackwell)
  /// Clock of runs of many minutes over that of the shortest tests: power holds it down whatever a product's length. 0:
  /// not known, long products slow down alone.
  double sustained = 0;
  double clock = 1;  ///< of long runs over that of the short tests that this is fitted to
};

/// `{peak, memory, l2_feed, split, throttle, throttle_after, exposed_output, exposed_most, cached, inner_step,
/// tiles_of_256}`. Throws UserError.
GemmModel read_gemm_model(const Node&, const std::string& what);

/// The chip that the products run on.
struct GemmChip {
  FlopsPerSecond peak;
  BytesPerSecond memory_bandwidth;
  Bytes l2;
  int sms = 1;
};

struct GemmTime {
  Seconds total;           ///< without the launch of the kernel
  bool by_memory = false;  ///< the traffic to memory takes longer than the arithmetic
};

/// The best of all tilings: waves of tiles over the SMs, fed by the L2 cache, beside the traffic to memory, with the
/// inner dimension split where too few tiles would leave SMs idle. `element`: of an operand; the output has 2 bytes or
/// the operand's, whichever is more.
GemmTime gemm_time(const GemmModel&, const GemmChip&, const GemmShape&, Bytes element);
/// The same of a numbered shape, remembered: layers of a network and ranks of a cluster share their shapes.
GemmTime gemm_time(const GemmModel&, const GemmChip&, std::uint16_t kernel, Bytes element);

}  // namespace trainyard
