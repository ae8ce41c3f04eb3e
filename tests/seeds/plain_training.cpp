#include "tests/seeds/plain_training.hpp"

#include <limits>

#include "strategies/values/layers/operators.hpp"

namespace trainyard {

using Eigen::Index;
using numeric::Graph;

PlainNetwork::PlainNetwork(const TrainingTask& task)
    : task_(task),
      network_(mlp_network(std::get<MlpShape>(task.model), task.micro_batch_size, Precision::fp64)),
      place_{task_, sharding_} {
  for (std::size_t l = 0; l < network_.layers.size(); ++l) {
    const auto tensors = numeric::layer_tensors(place_, static_cast<int>(l), network_, false);
    const Eigen::VectorXd& shard_parameters = shards_.emplace_back(network_.layers[l], tensors, task.seed).parameters;
    initial_.conservativeResize(initial_.size() + shard_parameters.size());
    initial_.tail(shard_parameters.size()) = shard_parameters;
  }
}

std::vector<Graph> PlainNetwork::passes(const Eigen::VectorXd& parameters, Index first, double batch) {
  std::vector<Graph> graphs(shards_.size());
  Index offset = 0;
  for (std::size_t l = 0; l < shards_.size(); ++l) {
    shards_[l].parameters = parameters.segment(offset, shards_[l].parameters.size());
    offset += shards_[l].parameters.size();
    // The graphs keep their places: moving the vector moves none of its elements.
    if (l > 0) graphs[l].node("x", [before = &graphs[l - 1]] { return (*before)["out"]; });
    const bool last = l + 1 == shards_.size();
    if (!last) graphs[l].node("dout", [next = &graphs[l + 1]] { return (*next)["dx"]; });
    numeric::define_layer(graphs[l], place_, {static_cast<int>(l), last, &shards_[l], nullptr}, {first, 1 / batch});
  }
  return graphs;
}

Eigen::VectorXd PlainNetwork::gradient(const Eigen::VectorXd& parameters, Index first, double batch) {
  std::vector<Graph> graphs = passes(parameters, first, batch);
  Eigen::VectorXd all(initial_.size());
  Index offset = 0;
  for (std::size_t l = 0; l < shards_.size(); ++l)
    for (const numeric::LayerShard::Tensor& tensor : shards_[l].tensors) {
      const numeric::Matrix& tensor_gradient = graphs[l][numeric::gradient_of(tensor.name)];
      all.segment(offset, tensor_gradient.size()) =
          Eigen::Map<const Eigen::VectorXd>(tensor_gradient.data(), tensor_gradient.size());
      offset += tensor_gradient.size();
    }
  return all;
}

double PlainNetwork::loss(const Eigen::VectorXd& parameters, Index first, double batch) {
  return passes(parameters, first, batch).back()["loss"](0, 0);
}

Index PlainNetwork::place_of(const GradientBucket::Part& part) const {
  Index offset = static_cast<Index>(part.first);
  for (int layer = 0; layer < part.layer; ++layer) offset += shards_[static_cast<std::size_t>(layer)].parameters.size();
  return offset + shards_[static_cast<std::size_t>(part.layer)].tensors[static_cast<std::size_t>(part.tensor)].first;
}

Eigen::VectorXd PlainNetwork::of_bucket(const GradientBucket& bucket, const Eigen::VectorXd& all) const {
  Eigen::VectorXd values(static_cast<Index>(bucket.elements));
  Index offset = 0;
  for (const GradientBucket::Part& part : bucket.parts) {
    const auto count = static_cast<Index>(part.elements);
    values.segment(offset, count) = all.segment(place_of(part), count);
    offset += count;
  }
  return values;
}

void PlainNetwork::put(const GradientBucket& bucket, const Eigen::VectorXd& values, Eigen::VectorXd& all) const {
  Index offset = 0;
  for (const GradientBucket::Part& part : bucket.parts) {
    const auto count = static_cast<Index>(part.elements);
    all.segment(place_of(part), count) = values.segment(offset, count);
    offset += count;
  }
}

Eigen::VectorXd train_plainly(TrainingTask task, int global_batch, int steps) {
  task.micro_batch_size = global_batch;
  PlainNetwork network(task);
  Eigen::VectorXd parameters = network.initial(), velocity = Eigen::VectorXd::Zero(parameters.size());
  for (int step = 0; step < steps; ++step) {
    velocity = task.rule.momentum * velocity +
               network.gradient(parameters, static_cast<Index>(step) * global_batch, global_batch);
    parameters -= task.rule.learning_rate * velocity;
  }
  return parameters;
}

double largest_difference(const Eigen::VectorXd& a, const Eigen::VectorXd& b) {
  const Eigen::VectorXd differences = (a - b).cwiseAbs();
  return differences.array().isNaN().any() ? std::numeric_limits<double>::infinity() : differences.maxCoeff();
}

}  // namespace trainyard
