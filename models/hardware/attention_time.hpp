#pragma once
#include <compare>
#include <cstdint>

#include "models/hardware/gemm.hpp"

namespace trainyard {

/// Format of the operands of a fused attention kernel: 16 bits, fp8 with a scale for each tensor, or fp8 with a scale
/// for 32 elements (MXFP8).
enum class AttentionFormat : std::uint8_t { wide, fp8, fp8_block };

/// One kernel of flash attention, or of its backward pass. Lengths are tokens of one sample.
struct AttentionWork {
  double heads = 1;    ///< number of heads, all samples together
  double queries = 1;  ///< queries of each head
  double pairs = 1;    ///< pairs of a query and a key of each head for which FLOPs are counted
  double longest = 1;  ///< number of keys that the last queries see
  int edges = 0;       ///< edges of the mask, whose tiles are computed in full: 1 if causal, 2 with a sliding window
  bool backward = false;
  AttentionFormat format = AttentionFormat::wide;
  auto operator<=>(const AttentionWork&) const = default;
};

/// Kernel numbers of a `Work` from this one up to `kFirstShape` stand for attention of a shape.
constexpr std::uint16_t kFirstAttention = 24576;

/// Returns the kernel number of a shape, always the same within one process. Throws UserError past 8,192 shapes.
std::uint16_t kernel_of(const AttentionWork&);
/// Returns the shape of a kernel number. Throws InternalError if no shape has that number.
const AttentionWork& attention_of(std::uint16_t kernel);

/// Constants of a library's flash attention on a chip, tile by tile. Shares are relative to the chip's datasheet.
struct AttentionModel {
  bool is_given = false;             ///< false: the chip has no such model
  double forward = 1, backward = 1;  ///< shares of the peak that an SM sustains within a tile, with its other half idle
  double memory = 1;                 ///< share of the memory bandwidth
  double tail = 0;                   ///< at the end the other SMs wait for this share of the longest tile's time
  /// Pairs of a query and a key that the whole chip computes a second, whatever the width of a head. 0: not measured.
  struct Pairs {
    double forward = 0, backward = 0;
  };
  double softmax = 0;    ///< limit by the softmax on pairs a second, forward in 16 bits; 0: no limit
  Pairs fp8, fp8_block;  ///< a format without figures takes as long as 16 bits
};

/// Reads `{forward, backward, memory, tail, softmax, fp8: {forward, backward}, fp8_block}`. Throws UserError with the
/// place.
AttentionModel read_attention_model(Fields&);

struct AttentionTime {
  Seconds total;   ///< without the kernel launch
  Seconds memory;  ///< the part of it that moves bytes
};

/// Time of tiles of 128 queries (Dao 2023, FlashAttention-2, section 3.3). Each tile runs on one SM for a time
/// proportional to the pairs that it computes, those of the mask's edges included; the `tail` follows. A pair takes the
/// time of its FLOPs or, in narrow heads and in fp8, that of the softmax. The memory traffic is added to that, because
/// a tile reads its queries before it computes and writes its output afterwards. `flops` and `bytes` are those counted
/// for the kernel.
AttentionTime attention_time(const AttentionModel&, const GemmChip&, const AttentionWork&, Flops flops, Bytes bytes);

}  // namespace trainyard
