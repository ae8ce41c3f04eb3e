#pragma once
#include <Eigen/Core>
#include <vector>

#include "strategies/plan/gradient_buckets.hpp"
#include "strategies/values/layers/layers.hpp"

namespace trainyard {

/// A network on one device, without any schedule, message or clock. It is the reference for simulated trainings. Its
/// parameters are one vector, layer by layer.
class PlainNetwork {
 public:
  /// Each call of gradient() and loss() takes `task.micro_batch_size` samples.
  explicit PlainNetwork(const TrainingTask&);
  PlainNetwork(const PlainNetwork&) = delete;
  PlainNetwork& operator=(const PlainNetwork&) = delete;

  const Eigen::VectorXd& initial() const { return initial_; }
  const Network& network() const { return network_; }
  /// Returns the gradient of the samples from `first` on. The loss is a mean over `batch` samples.
  Eigen::VectorXd gradient(const Eigen::VectorXd& parameters, Eigen::Index first, double batch);
  double loss(const Eigen::VectorXd& parameters, Eigen::Index first, double batch);

  // Read or write the elements of a bucket in a vector of all parameters.
  Eigen::VectorXd of_bucket(const GradientBucket&, const Eigen::VectorXd& all) const;
  void put(const GradientBucket&, const Eigen::VectorXd& values, Eigen::VectorXd& all) const;

 private:
  TrainingTask task_;
  Network network_;
  Sharding sharding_;
  numeric::RankPlace place_;
  std::vector<numeric::LayerShard> shards_;
  Eigen::VectorXd initial_;

  std::vector<numeric::Graph> passes(const Eigen::VectorXd& parameters, Eigen::Index first, double batch);
  Eigen::Index place_of(const GradientBucket::Part&) const;
};

/// Returns the parameters after `steps` steps of SGD with momentum on one device.
Eigen::VectorXd train_plainly(TrainingTask, int global_batch, int steps);

/// Returns the largest absolute difference of two elements; infinite if one of them is NaN.
double largest_difference(const Eigen::VectorXd&, const Eigen::VectorXd&);

}  // namespace trainyard
