#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "strategies/plan/gradient_buckets.hpp"
#include "strategies/values/mlp.hpp"

namespace trainyard {

/// Data and numerics of a small training, for as many ranks as share it. Samples are columns; the global batch of step
/// s is the s-th run of `global_batch` columns, of which rank r takes the r-th share, micro-batch by micro-batch.
struct NumericTask {
  MlpShape shape;
  std::uint64_t seed = 1;
  Eigen::MatrixXd inputs, targets;
  int global_batch = 1;
  double learning_rate = 0.1;
};

/// Columns of a task's inputs and targets.
struct Samples {
  Eigen::Index first = 0, count = 0;
};
/// Of one micro-batch of a rank, where so many ranks share the batch of a step.
Samples samples_of(const NumericTask&, int ranks, int micro_batches, std::int64_t step, int rank, int micro_batch);

/// One replica of a task's network, with what a step's passes leave behind.
struct MlpReplica {
  Mlp mlp;
  std::vector<Eigen::MatrixXd> activations;  ///< [0] the input, [l + 1] the output of layer l
  Eigen::MatrixXd gradient;                  ///< of the loss, by the output of the layer that goes back next
  std::vector<Eigen::VectorXd> gradients;    ///< of parameters, by layer: summed until they are cleared

  explicit MlpReplica(const NumericTask&);
  void forward(const NumericTask&, int layer, Samples);
  /// The loss's is an average over `batch` samples.
  void backward(const NumericTask&, int layer, Samples, double batch);
  /// Where `gradient` is there.
  void backward(int layer);
  /// Applies `gradients` and clears them.
  void update(double learning_rate);
  void clear_gradients();
  /// So that nobody may use parameters which it was not given.
  void spoil_parameters(double value);
};

/// A vector of zeros a layer, as long as its parameters.
std::vector<Eigen::VectorXd> zeros_by_layer(const MlpShape&);

// The elements of a bucket, one after the other, and the vectors by layer that they are parts of: gradients, or a
// network's parameters.
Eigen::VectorXd gathered(const Network&, const GradientBucket&, const std::vector<Eigen::VectorXd>& by_layer);
Eigen::VectorXd gathered(const Network&, const GradientBucket&, const Mlp&);
void scatter(const Network&, const GradientBucket&, const Eigen::VectorXd&, std::vector<Eigen::VectorXd>& by_layer);
void scatter(const Network&, const GradientBucket&, const Eigen::VectorXd&, Mlp&);

/// The same training on one device without any schedule: what every strategy must reproduce.
Mlp train_plainly(const NumericTask&, int steps);

/// Largest difference between the parameters of two networks of one shape.
double largest_difference(const Mlp&, const Mlp&);

}  // namespace trainyard
