#pragma once
#include <cmath>
#include <memory>

#include "strategies/values/layers/training_task.hpp"

namespace trainyard::test {

/// A small network that learns by plain SGD from `samples` samples.
inline TrainingTask small_task(int micro_batch_size, int samples) {
  TrainingTask task;
  task.model = MlpShape{{5, 7, 3, 2}};
  task.seed = 42;
  task.micro_batch_size = micro_batch_size;
  task.rule.learning_rate = 0.05;
  task.rule.momentum = 0;
  task.samples = std::make_shared<const SampleSet>(SampleSet{
      Eigen::MatrixXd::NullaryExpr(
          5, samples, [](Eigen::Index r, Eigen::Index c) { return std::sin(static_cast<double>(r * 13 + c * 7)); }),
      Eigen::MatrixXd::NullaryExpr(
          2, samples, [](Eigen::Index r, Eigen::Index c) { return std::cos(static_cast<double>(r + c * 3)); })});
  return task;
}

/// Returns the work of the task's network.
inline Network network_of(const TrainingTask& task) {
  return mlp_network(std::get<MlpShape>(task.model), task.micro_batch_size, Precision::fp32);
}

}  // namespace trainyard::test
