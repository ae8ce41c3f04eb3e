#include "strategies/values/mlp_replica.hpp"

#include <algorithm>

namespace trainyard {
namespace {

/// Every part of a bucket: its layer, where it begins in the layer's vector and in the bucket, how many elements.
template <class Visit>
void visit_parts(const Network& network, const GradientBucket& bucket, Visit visit) {
  Eigen::Index in_bucket = 0;
  for (const GradientBucket::Part& part : bucket.parts) {
    double in_layer = part.first;
    const Layer& layer = network.layers[static_cast<std::size_t>(part.layer)];
    for (int tensor = 0; tensor < part.tensor; ++tensor)
      in_layer += layer.parameters[static_cast<std::size_t>(tensor)].elements;
    const auto count = static_cast<Eigen::Index>(part.elements);
    visit(part.layer, static_cast<Eigen::Index>(in_layer), in_bucket, count);
    in_bucket += count;
  }
}

template <class OfLayer>
Eigen::VectorXd gather_from(const Network& network, const GradientBucket& bucket, OfLayer of_layer) {
  Eigen::VectorXd values(static_cast<Eigen::Index>(bucket.elements));
  visit_parts(network, bucket, [&](int layer, Eigen::Index in_layer, Eigen::Index in_bucket, Eigen::Index count) {
    values.segment(in_bucket, count) = of_layer(layer).segment(in_layer, count);
  });
  return values;
}

template <class OfLayer>
void scatter_into(const Network& network, const GradientBucket& bucket, const Eigen::VectorXd& values,
                  OfLayer of_layer) {
  visit_parts(network, bucket, [&](int layer, Eigen::Index in_layer, Eigen::Index in_bucket, Eigen::Index count) {
    of_layer(layer).segment(in_layer, count) = values.segment(in_bucket, count);
  });
}

}  // namespace

Samples samples_of(const NumericTask& task, int ranks, int micro_batches, std::int64_t step, int rank,
                   int micro_batch) {
  const Eigen::Index share = task.global_batch / ranks, size = share / micro_batches;
  return {static_cast<Eigen::Index>(step) * task.global_batch + rank * share + micro_batch * size, size};
}

std::vector<Eigen::VectorXd> zeros_by_layer(const MlpShape& shape) {
  std::vector<Eigen::VectorXd> all;
  for (int layer = 0; layer < shape.layers(); ++layer) all.emplace_back(Eigen::VectorXd::Zero(shape.parameters(layer)));
  return all;
}

MlpReplica::MlpReplica(const NumericTask& task)
    : mlp(task.shape, task.seed),
      activations(static_cast<std::size_t>(task.shape.layers()) + 1),
      gradients(zeros_by_layer(task.shape)) {}

void MlpReplica::forward(const NumericTask& task, int layer, Samples samples) {
  const auto l = static_cast<std::size_t>(layer);
  if (layer == 0) activations[0] = task.inputs.middleCols(samples.first, samples.count);
  activations[l + 1] = mlp.forward(layer, activations[l]);
}

void MlpReplica::backward(const NumericTask& task, int layer, Samples samples, double batch) {
  if (layer + 1 == mlp.layers())
    gradient = mlp.loss_gradient(activations.back(), task.targets.middleCols(samples.first, samples.count), batch);
  backward(layer);
}

void MlpReplica::backward(int layer) {
  const auto l = static_cast<std::size_t>(layer);
  gradient = mlp.backward(layer, activations[l], activations[l + 1], gradient, gradients[l]);
}

void MlpReplica::update(double learning_rate) {
  for (int layer = 0; layer < mlp.layers(); ++layer)
    mlp.update(layer, gradients[static_cast<std::size_t>(layer)], learning_rate);
  clear_gradients();
}

void MlpReplica::clear_gradients() {
  for (Eigen::VectorXd& of_layer : gradients) of_layer.setZero();
}

void MlpReplica::spoil_parameters(double value) {
  for (int layer = 0; layer < mlp.layers(); ++layer) mlp.parameters(layer).setConstant(value);
}

Eigen::VectorXd gathered(const Network& network, const GradientBucket& bucket,
                         const std::vector<Eigen::VectorXd>& by_layer) {
  return gather_from(network, bucket,
                     [&](int l) -> const Eigen::VectorXd& { return by_layer[static_cast<std::size_t>(l)]; });
}

Eigen::VectorXd gathered(const Network& network, const GradientBucket& bucket, const Mlp& mlp) {
  return gather_from(network, bucket, [&](int l) -> const Eigen::VectorXd& { return mlp.parameters(l); });
}

void scatter(const Network& network, const GradientBucket& bucket, const Eigen::VectorXd& values,
             std::vector<Eigen::VectorXd>& by_layer) {
  scatter_into(network, bucket, values,
               [&](int l) -> Eigen::VectorXd& { return by_layer[static_cast<std::size_t>(l)]; });
}

void scatter(const Network& network, const GradientBucket& bucket, const Eigen::VectorXd& values, Mlp& mlp) {
  scatter_into(network, bucket, values, [&](int l) -> Eigen::VectorXd& { return mlp.parameters(l); });
}

Mlp train_plainly(const NumericTask& task, int steps) {
  Mlp mlp(task.shape, task.seed);
  for (int step = 0; step < steps; ++step) {
    const Eigen::Index first = static_cast<Eigen::Index>(step) * task.global_batch;
    const auto gradients = mlp.gradients(task.inputs.middleCols(first, task.global_batch),
                                         task.targets.middleCols(first, task.global_batch), task.global_batch);
    for (int layer = 0; layer < task.shape.layers(); ++layer)
      mlp.update(layer, gradients[static_cast<std::size_t>(layer)], task.learning_rate);
  }
  return mlp;
}

double largest_difference(const Mlp& a, const Mlp& b) {
  double largest = 0;
  for (int layer = 0; layer < a.layers(); ++layer)
    largest = std::max(largest, (a.parameters(layer) - b.parameters(layer)).cwiseAbs().maxCoeff());
  return largest;
}

}  // namespace trainyard
