#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/hardware/gpu.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Part of an operand in fp8 that has a scale of its own, and the source of the scale.
enum class Fp8Scaling : std::uint8_t {
  delayed,  ///< a tensor; maxima of earlier steps, recorded by the cast (TransformerEngine's DelayedScaling)
  /// a tensor; maximum of a pass before the cast (TransformerEngine's Float8CurrentScaling, torchao's tensorwise)
  current,
  row,    ///< a row or column along the summed dimension (torchao's rowwise): gathered in 16 bits, then cast
  block,  ///< 32 or 128 elements along the summed dimension (MXFP8; DeepSeek-AI 2024, DeepSeek-V3, section 3.3.2)
  mxfp6,  ///< operands in 6 bits, a scale of 8 bits for 32 elements along the summed dimension (OCP Microscaling 1.0)
  mxfp4,  ///< operands in 4 bits, with scales as in mxfp6
  /// Operands in 4 bits with an fp8 scale for 16 elements and an fp32 scale for the tensor, whose maximum a pass before
  /// the cast finds. The inputs of weights' gradients are rotated (Hadamard) and gradients rounded at random within
  /// those passes (NVIDIA 2025, Pretraining Large Language Models with NVFP4; TransformerEngine's NVFP4BlockScaling).
  nvfp4
};

/// Reads the name of a value of the enumeration. Throws UserError.
Fp8Scaling parse_fp8_scaling(const std::string&);
/// The names of the scalings of operands in fp8, in the order of the enumeration.
const std::vector<std::string>& fp8_scalings();
/// The number format of operands with that scaling.
Precision format_of(Fp8Scaling);
/// The name of a format of fewer than 8 bits with its scaling, such as "nvfp4"; "" for fp8.
std::string narrower_than_fp8(Fp8Scaling);

/// Casts of the operands of matrix products to fp8, or to 6 or 4 bits. A product reads its operands along the summed
/// dimension, which is another one for the gradient of a weight than for the output.
struct Fp8Products {
  bool is_used = false;
  Fp8Scaling scaling = Fp8Scaling::delayed;
  /// true: the chip multiplies operands stored along any dimension (Blackwell); false: they are transposed (Ada,
  /// Hopper).
  bool any_layout = false;

  /// Does each tensor rank cast its own share of a tensor before the ranks gather it?
  bool gathers_narrow() const { return is_used && scaling != Fp8Scaling::row; }
  /// Do ranks that gather a tensor agree on its maximum before they cast it?
  bool agrees() const { return is_used && (scaling == Fp8Scaling::current || scaling == Fp8Scaling::nvfp4); }
  Precision format() const { return format_of(scaling); }
  /// Size of an element of an operand; below 8 bits with its share of the scale of its block.
  Bytes element() const;
  /// Scales of blocks in memory for each element of an operand in fp8: a byte for 32 elements (TransformerEngine,
  /// mxfp8_tensor.py, without the padding of small tensors), or four for 128 (DeepSeek-V3); 0 for other scalings. Below 8
  /// bits `element` has them.
  Bytes scales() const;
  /// Scales for each element of a weight that is itself in fp8. There are two copies if blocks lie along one dimension; the
  /// square blocks of Hopper's weights have so few that they are left out.
  Bytes weight_scales() const { return any_layout ? scales() * 2 : Bytes{}; }
  /// Size, for each element of a weight, of the copies that stay beside it until the parameters are updated. Below 8
  /// bits there are two copies, one along each dimension. In fp8 there is no copy: frameworks keep the parameters
  /// themselves in fp8.
  Bytes weight_copies() const;
  /// Bytes moved by the kernel that casts `elements` elements, each of which it reads as `source` bytes. `both`: it
  /// casts along both dimensions.
  Bytes cast_traffic(double elements, Bytes source, bool both) const;
  /// Bytes moved to transpose a tensor that was cast along one dimension; 0: it need not be transposed.
  Bytes transpose_traffic(double elements) const;
};

}  // namespace trainyard
