#pragma once
#include <cstdint>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/networks/layers/sharding.hpp"

namespace trainyard {

enum class MlpLoss : std::uint8_t {
  mean_squared_error,  ///< ½·|output − target|² for each sample
  softmax_cross_entropy,  ///< −Σ target·log softmax(output) for each sample; targets are distributions over the outputs
};

/// A fully connected network. Layer l maps widths[l] to widths[l + 1], with tanh after each layer but the last.
struct MlpShape {
  std::vector<int> widths;
  MlpLoss loss = MlpLoss::mean_squared_error;

  int layers() const { return static_cast<int>(widths.size()) - 1; }
  void check() const;  ///< throws UserError for fewer than two widths or one below 1
};

/// Part of a layer that a rank of the tensor axis computes. replicated: all of it; columns: its share of the outputs, which
/// stay on the rank; gathered_columns: the same, and the outputs are gathered; rows: its share of the inputs, which it
/// has already; spread_rows: its share of the inputs, of which every rank has all.
enum class LinearSharding : std::uint8_t { replicated, columns, gathered_columns, rows, spread_rows };
/// Returns the part that follows from `Sharding::linear_splits` or `linear_split`. Throws ShardingError if
/// `linear_splits` has another number of layers.
LinearSharding linear_sharding(const MlpShape&, int layer, const Sharding&);
constexpr bool by_rows(LinearSharding sharding) {
  return sharding == LinearSharding::rows || sharding == LinearSharding::spread_rows;
}

/// Returns the work of one micro-batch. The network has the same layers, each with the tensors weight (widths[l + 1]
/// × widths[l], column-major) and bias (widths[l + 1]). The last layer ends with the loss. The first one computes no gradient of its input.
///
/// Sharded over the tensor axis by `Sharding::linear_split`, it is the work of one rank. pairs: layer 2i is split by
/// columns (backward linear.reduce.backward, an all-reduce of the gradient of its input, except in the first layer),
/// layer 2i+1 by rows (forward linear.reduce, an all-reduce; its bias is added afterwards); a last layer without a
/// partner is split by columns. columns: tanh of the rank's outputs, then linear.gather, an all-gather of all outputs;
/// backward as above. rows: the rank's part of the input, linear.reduce, and tanh of all outputs on every rank;
/// backward linear.gather.backward, an all-gather of the gradient of the input. replicated: as on one device. Throws
/// UserError for sizes below 1, precisions that are not modelled, widths that the ranks do not divide, and other axes
/// than tensor.
Network mlp_network(const MlpShape&, std::int64_t micro_batch_size, Precision, const Sharding& = {});

}  // namespace trainyard
