#pragma once
#include <compare>
#include <cstdint>

#include "models/hardware/gemm.hpp"

namespace trainyard {

/// One kernel of flash attention, or of its backward pass. Lengths are tokens of one sample.
struct AttentionWork {
  double heads = 1;     ///< of all samples
  double queries = 1;   ///< of each head
  double pairs = 1;     ///< of a query and a key, of each head: those that the FLOPs are counted for
  double longest = 1;   ///< keys that the last queries see
  bool masked = false;  ///< causal or windowed: the tiles on the edge are computed whole
  bool backward = false;
  auto operator<=>(const AttentionWork&) const = default;
};

/// Numbers from here to `kFirstShape` stand for attention of a shape, where a `Work` has the number of a kernel.
constexpr std::uint16_t kFirstAttention = 24576;

/// The number of a shape, the same whenever it is asked for in this process. Throws UserError past 8,192 shapes.
std::uint16_t kernel_of(const AttentionWork&);
/// Throws InternalError for a number that stands for none.
const AttentionWork& attention_of(std::uint16_t kernel);

/// What a library's flash attention does on a chip, tile by tile. Shares are of the chip's datasheet.
struct AttentionModel {
  bool given = false;
  double forward = 1, backward = 1;  ///< shares of the peak that an SM sustains within a tile, with its other half idle
  double memory = 1;                 ///< share of the memory bandwidth
  double tail = 0;                   ///< share of the longest tile for which the other SMs wait at the end
};

/// `{forward, backward, memory, tail}`. Throws UserError with the place.
AttentionModel read_attention_model(const Node&, const std::string& what);

struct AttentionTime {
  Seconds total;           ///< without the launch of the kernel
  bool by_memory = false;  ///< the traffic to memory takes longer than the arithmetic
};

/// Tiles of 128 queries (Dao 2023, FlashAttention-2, section 3.3), each on one SM and for as long as the keys that it
/// sees take; then the `tail`. The traffic to memory comes on top: a tile reads its queries before it computes and writes
/// its output after that. `flops`, `bytes`: of the kernel as counted.
AttentionTime attention_time(const AttentionModel&, const GemmChip&, const AttentionWork&, Flops flops, Bytes bytes);

}  // namespace trainyard
