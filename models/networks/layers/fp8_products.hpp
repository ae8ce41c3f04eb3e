#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/units.hpp"

namespace trainyard {

/// What a scale of an operand in fp8 belongs to, and what it is known from.
enum class Fp8Scaling : std::uint8_t {
  delayed,  ///< a tensor; the maxima of earlier steps, which the cast itself notes (TransformerEngine's DelayedScaling)
  current,  ///< a tensor; a pass over it before the cast (TransformerEngine's Float8CurrentScaling, torchao's tensorwise)
  row,      ///< a row or column, along what is summed over (torchao's rowwise): gathered in 16 bits and cast after that
  block     ///< some 32 or 128 elements along what is summed over (MXFP8; DeepSeek-AI 2024, DeepSeek-V3, section 3.3.2)
};

/// Throws UserError: the words are those of the enumeration.
Fp8Scaling parse_fp8_scaling(const std::string&);
const std::vector<std::string>& fp8_scalings();

/// How operands of matrix products get into fp8. A product reads its operands along what it sums over, which for the
/// gradient of a weight is another dimension than for the output.
struct Fp8Products {
  bool used = false;
  Fp8Scaling scaling = Fp8Scaling::delayed;
  /// The chip multiplies operands that lie along any dimension (Blackwell); else they are transposed (Ada, Hopper).
  bool any_layout = false;

  /// What tensor ranks gather is cast before, each rank's own share.
  bool gathers_narrow() const { return used && scaling != Fp8Scaling::row; }
  /// Ranks that gather a tensor agree on its maximum before it is cast.
  bool agrees() const { return used && scaling == Fp8Scaling::current; }
  /// The kernel that casts so many elements from `source` bytes moves this; `both`: along both dimensions.
  Bytes cast_traffic(double elements, Bytes source, bool both) const;
  /// A tensor that was cast along one dimension as it lies along the other; 0: it can be read as it is.
  Bytes transpose_traffic(double elements) const;
};

}  // namespace trainyard
