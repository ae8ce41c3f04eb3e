#pragma once
#include <cmath>

#include "strategies/values/mlp_replica.hpp"

namespace trainyard::test {

/// A small network that learns from so many batches.
inline NumericTask small_task(int global_batch, int batches) {
  NumericTask task;
  task.shape.widths = {5, 7, 3, 2};
  task.seed = 42;
  task.global_batch = global_batch;
  task.learning_rate = 0.05;
  const Eigen::Index samples = static_cast<Eigen::Index>(global_batch) * batches;
  task.inputs = Eigen::MatrixXd::NullaryExpr(
      5, samples, [](Eigen::Index r, Eigen::Index c) { return std::sin(static_cast<double>(r * 13 + c * 7)); });
  task.targets = Eigen::MatrixXd::NullaryExpr(
      2, samples, [](Eigen::Index r, Eigen::Index c) { return std::cos(static_cast<double>(r + c * 3)); });
  return task;
}

}  // namespace trainyard::test
