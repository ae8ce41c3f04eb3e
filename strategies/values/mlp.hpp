#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "models/networks/mlp/mlp.hpp"

namespace trainyard {

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

}  // namespace trainyard
