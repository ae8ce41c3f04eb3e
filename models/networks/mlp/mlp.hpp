#pragma once
#include <Eigen/Core>
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
  Eigen::Index parameters(int layer) const;
};

/// A small network that really learns, layer by layer, so that whoever splits the work can split the arithmetic too.
/// Matrices hold one sample a column: widths × samples. Gradients of disjoint samples add up to that of them all.
class Mlp {
 public:
  /// Weights uniform in ±sqrt(6 / (in + out)) (Glorot & Bengio 2010), biases 0. A layer's depend on the seed and its
  /// number alone, and on no library's generator, so they are the same everywhere and on whoever holds the layer.
  /// Throws UserError for fewer than two widths or one below 1.
  Mlp(MlpShape, std::uint64_t seed);

  const MlpShape& shape() const { return shape_; }
  int layers() const { return shape_.layers(); }
  Eigen::VectorXd& parameters(int layer) { return parameters_.at(static_cast<std::size_t>(layer)); }
  const Eigen::VectorXd& parameters(int layer) const { return parameters_.at(static_cast<std::size_t>(layer)); }

  /// Output of one layer: widths[l] × samples → widths[l+1] × samples.
  Eigen::MatrixXd forward(int layer, const Eigen::MatrixXd& in) const;
  Eigen::MatrixXd forward(const Eigen::MatrixXd& in) const;  ///< through all layers

  /// Loss summed over the columns, divided by `batch`: the samples of the whole batch, of which these may be a part.
  double loss(const Eigen::MatrixXd& out, const Eigen::MatrixXd& target, double batch) const;
  Eigen::MatrixXd loss_gradient(const Eigen::MatrixXd& out, const Eigen::MatrixXd& target, double batch) const;

  /// Given what `forward(layer, in)` returned and the gradient of the loss by it, ADDS the gradient of the layer's
  /// parameters to `gradient` (a view, `shape().parameters(layer)` long) and returns the gradient by `in`.
  Eigen::MatrixXd backward(int layer, const Eigen::MatrixXd& in, const Eigen::MatrixXd& out,
                           const Eigen::MatrixXd& out_gradient, Eigen::Ref<Eigen::VectorXd> gradient) const;
  /// Gradients of all layers, one vector each, for samples that are part of a batch of `batch`.
  std::vector<Eigen::VectorXd> gradients(const Eigen::MatrixXd& in, const Eigen::MatrixXd& target, double batch) const;

  /// parameters −= learning_rate · gradient.
  void update(int layer, const Eigen::Ref<const Eigen::VectorXd>& gradient, double learning_rate);

 private:
  void require(int layer, Eigen::Index rows, Eigen::Index expected, const char* what) const;

  MlpShape shape_;
  std::vector<Eigen::VectorXd> parameters_;
};

/// The same network as work of one micro-batch: as many layers, each with the tensors weight and bias in the order of
/// `Mlp::parameters`; the last one ends with the loss. The first one computes no gradient of its input.
///
/// Sharded over the tensor axis by `Sharding::linear_split`, it is what one rank does. pairs: layer 2i by columns
/// (backward linear.reduce.backward, an all-reduce of the gradient by its input, but for the first layer), layer 2i+1 by
/// rows (forward linear.reduce, an all-reduce; its bias comes after); a last layer without a partner goes by columns.
/// columns: tanh of the rank's outputs, then linear.gather, an all-gather of them all; backward as above. rows: the rank's
/// part of the input, linear.reduce, and tanh of all outputs on every rank; backward linear.gather.backward, an
/// all-gather of the gradient by the input.
/// Throws UserError for sizes below 1, precisions that are not modelled, widths that the ranks do not divide, and other
/// axes than tensor.
Network mlp_network(const MlpShape&, std::int64_t micro_batch_size, Precision, const Sharding& = {});

}  // namespace trainyard
