#pragma once
#include <cstdint>
#include <string>

#include "sim/units.hpp"

namespace trainyard {

/// Axes of the mesh of ranks, with Megatron-LM's names. `ulysses` and `ring` are the two factors of the context axis if
/// its ranks exchange heads in groups (`LayerDegrees::ulysses`).
enum class Axis : std::uint8_t { tensor, context, expert, data, pipeline, expert_tensor, ulysses, ring };
constexpr int kAxes = 8;
const char* name_of(Axis);
Axis parse_axis(const std::string&);  ///< throws UserError naming the axes

/// Collective of the ranks of one axis, with the meaning of `Exchange::bytes`.
enum class ExchangeKind : std::uint8_t {
  all_reduce,      ///< bytes of the tensor
  all_gather,      ///< bytes of the whole result
  reduce_scatter,  ///< bytes of the whole input
  all_to_all,      ///< bytes that a rank sends in total, including the part that it keeps
  ring_shift,      ///< bytes that a rank sends to the next one
};

/// An exchange between the kernels of one pass of a layer. Kernels are numbered in the order of the pass.
struct Exchange {
  std::string name;
  Axis axis = Axis::tensor;
  ExchangeKind kind = ExchangeKind::all_reduce;
  Bytes bytes;
  int kernels_before = 0;  ///< number of kernels of the pass that end before it starts
  int needed_by = 0;       ///< first kernel that waits for it; the number of kernels: only what follows the pass waits
  bool for_weights = false;  ///< only gradients of weights need it: if these are put off, so is the exchange
  /// Part, 0 to 1, of an all-gather or reduce-scatter that overlaps with the matrix product next to it. Nothing waits
  /// for this part. It is a stated figure, because the library's schedule of the two is not known (see
  /// `Sharding::user_buffers`).
  double hidden_share = 0;
  /// An all-to-all by which rows come back from their experts, or gradients of rows go back.
  bool returns = false;
};

}  // namespace trainyard
