#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/units.hpp"

namespace trainyard {

/// Part of an operand in fp8 that has a scale of its own, and the source of the scale.
enum class Fp8Scaling : std::uint8_t {
  delayed,  ///< a tensor; maxima of earlier steps, recorded by the cast (TransformerEngine's DelayedScaling)
  /// a tensor; maximum of a pass before the cast (TransformerEngine's Float8CurrentScaling, torchao's tensorwise)
  current,
  row,   ///< a row or column along the summed dimension (torchao's rowwise): gathered in 16 bits, then cast
  block  ///< 32 or 128 elements along the summed dimension (MXFP8; DeepSeek-AI 2024, DeepSeek-V3, section 3.3.2)
};

/// Reads the name of a value of the enumeration. Throws UserError.
Fp8Scaling parse_fp8_scaling(const std::string&);
const std::vector<std::string>& fp8_scalings();

/// Casts of the operands of matrix products to fp8. A product reads its operands along the summed dimension, which is
/// another one for the gradient of a weight than for the output.
struct Fp8Products {
  bool used = false;
  Fp8Scaling scaling = Fp8Scaling::delayed;
  /// true: the chip multiplies operands stored along any dimension (Blackwell); false: they are transposed (Ada,
  /// Hopper).
  bool any_layout = false;

  /// Does each tensor rank cast its own share of a tensor before the ranks gather it?
  bool gathers_narrow() const { return used && scaling != Fp8Scaling::row; }
  /// Do ranks that gather a tensor agree on its maximum before they cast it?
  bool agrees() const { return used && scaling == Fp8Scaling::current; }
  /// Bytes moved by the kernel that casts `elements` elements of `source` bytes. `both`: along both dimensions.
  Bytes cast_traffic(double elements, Bytes source, bool both) const;
  /// Bytes moved to transpose a tensor that was cast along one dimension; 0: it need not be transposed.
  Bytes transpose_traffic(double elements) const;
};

}  // namespace trainyard
