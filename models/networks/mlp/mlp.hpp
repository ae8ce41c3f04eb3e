#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/networks/layers/sharding.hpp"

namespace trainyard {

enum class MlpLoss : std::uint8_t {
  mean_squared_error,     ///< per sample ½·|output − target|²
  softmax_cross_entropy,  ///< per sample −Σ target·log softmax(output); targets are distributions over the outputs
};

/// A fully connected network: layer l maps widths[l] to widths[l + 1], with tanh after all but the last.
struct MlpShape {
  std::vector<int> widths;
  MlpLoss loss = MlpLoss::mean_squared_error;

  int layers() const { return static_cast<int>(widths.size()) - 1; }
  void check() const;  ///< throws UserError for fewer than two widths or one below 1
  /// Weights (widths[l+1] × widths[l], column-major), then biases (widths[l+1]).
  std::int64_t parameters(int layer) const;
};

/// What a rank of the tensor axis does of a layer. whole: all of it; columns: its outputs, which stay where they are;
/// gathered_columns: and are gathered; rows: its inputs, which are there already; spread_rows: its inputs, of which every
/// rank has all.
enum class LinearWay : std::uint8_t { whole, columns, gathered_columns, rows, spread_rows };
/// As `Sharding::linear_splits` or `linear_split` say. Throws ShardingError for splits of another number of layers.
LinearWay linear_way(const MlpShape&, int layer, const Sharding&);
constexpr bool by_rows(LinearWay way) { return way == LinearWay::rows || way == LinearWay::spread_rows; }

/// The same network as work of one micro-batch: as many layers, each with the tensors weight and bias in the order of
/// `MlpShape::parameters`; the last one ends with the loss. The first one computes no gradient of its input.
///
/// Sharded over the tensor axis by `Sharding::linear_split`, it is what one rank does. pairs: layer 2i by columns
/// (backward linear.reduce.backward, an all-reduce of the gradient by its input, but for the first layer), layer 2i+1 by
/// rows (forward linear.reduce, an all-reduce; its bias comes after); a last layer without a partner goes by columns.
/// columns: tanh of the rank's outputs, then linear.gather, an all-gather of them all; backward as above. rows: the rank's
/// part of the input, linear.reduce, and tanh of all outputs on every rank; backward linear.gather.backward, an
/// all-gather of the gradient by the input. replicated: as on one device.
/// Throws UserError for sizes below 1, precisions that are not modelled, widths that the ranks do not divide, and other
/// axes than tensor.
Network mlp_network(const MlpShape&, std::int64_t micro_batch_size, Precision, const Sharding& = {});

}  // namespace trainyard
