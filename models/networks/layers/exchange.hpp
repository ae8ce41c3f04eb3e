#pragma once
#include <cstdint>
#include <string>

#include "sim/units.hpp"

namespace trainyard {

/// Axes of the mesh of ranks, in Megatron-LM's words.
enum class Axis : std::uint8_t { tensor, context, expert, data, pipeline, expert_tensor };
constexpr int kAxes = 6;
const char* name_of(Axis);
Axis parse_axis(const std::string&);  ///< throws UserError naming the axes

/// What the ranks of one axis do together.
enum class Exchanged : std::uint8_t {
  all_reduce,      ///< bytes: of the tensor
  all_gather,      ///< bytes: of the whole result
  reduce_scatter,  ///< bytes: of the whole input
  all_to_all,      ///< bytes: of what a rank sends in all, the part that it keeps included
  ring_shift,      ///< bytes: of what a rank passes on to the next one
};

/// An exchange between the kernels of one pass of a layer. Kernels are numbered in the order of the pass.
struct Exchange {
  std::string name;
  Axis axis = Axis::tensor;
  Exchanged what = Exchanged::all_reduce;
  Bytes bytes;
  int after = 0;             ///< so many kernels of the pass have ended before it starts
  int needed_by = 0;         ///< the first kernel that waits for it; their number: whatever follows the pass
  bool for_weights = false;  ///< only gradients of weights need it: where these come later, so does it
  /// Of an all-gather or reduce-scatter next to a matrix product: this part of it, 0 to 1, goes on beside the product and
  /// nobody waits for it. Stated, where a library's own schedule of the two together is not known (see
  /// `Sharding::user_buffers`).
  double hidden = 0;
};

}  // namespace trainyard
