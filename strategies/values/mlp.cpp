#include "strategies/values/mlp.hpp"

#include <cmath>
#include <utility>

#include "sim/error.hpp"
#include "sim/hashing.hpp"

namespace trainyard {
namespace {

/// One number after the other.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mixed(std::exchange(state_, state_ + kGoldenGamma)); }
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

Eigen::Index width(const MlpShape& shape, int index) { return shape.widths.at(static_cast<std::size_t>(index)); }

/// Column by column; shifted by the maximum, so that no exponential overflows.
Eigen::MatrixXd log_softmax(const Eigen::MatrixXd& logits) {
  Eigen::MatrixXd result(logits.rows(), logits.cols());
  for (Eigen::Index column = 0; column < logits.cols(); ++column) {
    const double largest = logits.col(column).maxCoeff();
    const double log_sum = largest + std::log((logits.col(column).array() - largest).exp().sum());
    result.col(column) = logits.col(column).array() - log_sum;
  }
  return result;
}

void require_same_size(const Eigen::MatrixXd& out, const Eigen::MatrixXd& target) {
  if (out.rows() != target.rows() || out.cols() != target.cols())
    throw InternalError("mlp: outputs and targets differ in size");
}

}  // namespace

Mlp::Mlp(MlpShape shape, std::uint64_t seed) : shape_(std::move(shape)) {
  shape_.check();
  for (int layer = 0; layer < layers(); ++layer) {
    // A stream of its own for each layer: the generator's output hides that the seeds are near each other.
    SplitMix64 random(SplitMix64(seed ^ SplitMix64(static_cast<std::uint64_t>(layer)).next()).next());
    const Eigen::Index in = width(shape_, layer), out = width(shape_, layer + 1);
    const double limit = std::sqrt(6.0 / static_cast<double>(in + out));
    Eigen::VectorXd values = Eigen::VectorXd::Zero(shape_.parameters(layer));
    for (Eigen::Index i = 0; i < in * out; ++i) values[i] = limit * (2 * random.uniform() - 1);
    parameters_.push_back(std::move(values));
  }
}

void Mlp::require(int layer, Eigen::Index rows, Eigen::Index expected, const char* what) const {
  if (rows != expected)
    throw InternalError("mlp layer " + std::to_string(layer) + ": " + what + " has " + std::to_string(rows) +
                        " rows, not " + std::to_string(expected));
}

Eigen::MatrixXd Mlp::forward(int layer, const Eigen::MatrixXd& in) const {
  const Eigen::Index from = width(shape_, layer), to = width(shape_, layer + 1);
  require(layer, in.rows(), from, "the input");
  const Eigen::VectorXd& values = parameters(layer);
  const Eigen::Map<const Eigen::MatrixXd> weight(values.data(), to, from);
  Eigen::MatrixXd out = (weight * in).colwise() + values.tail(to);
  if (layer + 1 < layers()) out = out.array().tanh();
  return out;
}

Eigen::MatrixXd Mlp::forward(const Eigen::MatrixXd& in) const {
  Eigen::MatrixXd out = in;
  for (int layer = 0; layer < layers(); ++layer) out = forward(layer, out);
  return out;
}

double Mlp::loss(const Eigen::MatrixXd& out, const Eigen::MatrixXd& target, double batch) const {
  require_same_size(out, target);
  if (shape_.loss == MlpLoss::mean_squared_error) return (out - target).squaredNorm() / (2 * batch);
  return -target.cwiseProduct(log_softmax(out)).sum() / batch;
}

Eigen::MatrixXd Mlp::loss_gradient(const Eigen::MatrixXd& out, const Eigen::MatrixXd& target, double batch) const {
  require_same_size(out, target);
  if (shape_.loss == MlpLoss::mean_squared_error) return (out - target) / batch;
  Eigen::MatrixXd softmax = log_softmax(out).array().exp();
  for (Eigen::Index column = 0; column < out.cols(); ++column) softmax.col(column) *= target.col(column).sum();
  return (softmax - target) / batch;
}

Eigen::MatrixXd Mlp::backward(int layer, const Eigen::MatrixXd& in, const Eigen::MatrixXd& out,
                              const Eigen::MatrixXd& out_gradient, Eigen::Ref<Eigen::VectorXd> gradient) const {
  const Eigen::Index from = width(shape_, layer), to = width(shape_, layer + 1);
  require(layer, in.rows(), from, "the input");
  require(layer, out.rows(), to, "the output");
  require(layer, out_gradient.rows(), to, "the gradient of the output");
  require(layer, gradient.size(), shape_.parameters(layer), "the gradient of the parameters");
  Eigen::MatrixXd delta = out_gradient;
  if (layer + 1 < layers()) delta.array() *= 1 - out.array().square();  // tanh' = 1 − tanh²
  Eigen::Map<Eigen::MatrixXd>(gradient.data(), to, from) += delta * in.transpose();
  gradient.tail(to) += delta.rowwise().sum();
  const Eigen::Map<const Eigen::MatrixXd> weight(parameters(layer).data(), to, from);
  return weight.transpose() * delta;
}

std::vector<Eigen::VectorXd> Mlp::gradients(const Eigen::MatrixXd& in, const Eigen::MatrixXd& target,
                                            double batch) const {
  std::vector<Eigen::MatrixXd> values = {in};
  std::vector<Eigen::VectorXd> result;
  for (int layer = 0; layer < layers(); ++layer) {
    values.push_back(forward(layer, values.back()));
    result.push_back(Eigen::VectorXd::Zero(shape_.parameters(layer)));
  }
  Eigen::MatrixXd upstream = loss_gradient(values.back(), target, batch);
  for (int layer = layers() - 1; layer >= 0; --layer) {
    const auto l = static_cast<std::size_t>(layer);
    upstream = backward(layer, values[l], values[l + 1], upstream, result[l]);
  }
  return result;
}

void Mlp::update(int layer, const Eigen::Ref<const Eigen::VectorXd>& gradient, double learning_rate) {
  require(layer, gradient.size(), shape_.parameters(layer), "the gradient of the parameters");
  parameters(layer) -= learning_rate * gradient;
}

}  // namespace trainyard
