#pragma once
#include <array>
#include <cstdint>

#include "sim/units.hpp"

namespace trainyard {

/// Which linear layer of a block, for what goes by it.
enum class LinearPart : std::uint8_t { other, qkv, attention_output, mlp_in, mlp_out };
constexpr int kLinearParts = 5;

/// Low-rank adapters (Hu et al. 2021, LoRA): the network is frozen, and linear layers of blocks have y = x·W + x·A·B
/// beside them, A of in × rank and B of rank × out, which alone are trained.
struct Adapters {
  int rank = 0;  ///< 0: none, all is trained
  std::array<bool, kLinearParts> beside{};
  double dropout = 0;  ///< of what A is given
  /// How frozen matrices of blocks lie in memory: as the network's precision has them; in fp8, which products in fp8
  /// read as it is; in 4 bits (Dettmers et al. 2023, QLoRA), widened before each product.
  enum class Base : std::uint8_t { as_trained, fp8, nf4 } base = Base::as_trained;

  bool any() const { return rank > 0; }
};

/// NF4 with a scale for 64 elements, which are quantized themselves: 4.127 bits an element (Dettmers et al. 2023, §3).
constexpr Bytes kNf4Size{4.127 / 8};

constexpr Bytes stored_size(Adapters::Base base) { return base == Adapters::Base::nf4 ? kNf4Size : Bytes{1}; }

}  // namespace trainyard
