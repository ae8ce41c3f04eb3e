#pragma once
#include <array>
#include <cstdint>

#include "sim/units.hpp"

namespace trainyard {

/// The linear layers of a block, for options that select some of them.
enum class LinearPart : std::uint8_t { other, qkv, attention_output, mlp_in, mlp_out };
constexpr int kLinearParts = 5;

/// Low-rank adapters (Hu et al. 2021, LoRA): the network is frozen, and linear layers of blocks compute
/// y = x·W + x·A·B. Only A (in × rank) and B (rank × out) are trained.
struct Adapters {
  int rank = 0;                                  ///< 0: no adapters, the whole network is trained
  std::array<bool, kLinearParts> has_adapter{};  ///< linear layers with adapters, by `LinearPart`
  double dropout = 0;                            ///< dropout probability of the input of A
  /// Format of the frozen matrices of blocks in memory. as_trained: the network's precision; fp8: products in fp8 read
  /// it directly; nf4: 4 bits (Dettmers et al. 2023, QLoRA), widened before each product.
  enum class Base : std::uint8_t { as_trained, fp8, nf4 } base = Base::as_trained;

  bool has_rank() const { return rank > 0; }
};

/// Size of an element in NF4, 4.127 bits with a scale for 64 elements that is quantized itself (Dettmers et al. 2023,
/// §3).
constexpr Bytes kNf4Size{4.127 / 8};

constexpr Bytes stored_size(Adapters::Base base) { return base == Adapters::Base::nf4 ? kNf4Size : Bytes{1}; }

}  // namespace trainyard
