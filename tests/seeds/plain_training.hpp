#pragma once
#include <Eigen/Core>
#include <vector>

#include "strategies/plan/gradient_buckets.hpp"
#include "strategies/values/layers/layers.hpp"

namespace trainyard {

/// A network on one device, without any schedule, message or clock: what trainings that are simulated are compared with.
/// Its parameters are one vector, layer by layer.
class PlainNetwork {
 public:
  /// Gradients are of `task.micro_batch_size` samples at a time.
  explicit PlainNetwork(const TrainingTask&);
  PlainNetwork(const PlainNetwork&) = delete;
  PlainNetwork& operator=(const PlainNetwork&) = delete;

  const Eigen::VectorXd& initial() const { return initial_; }
  const Network& network() const { return network_; }
  /// Of samples from `first` on, of a loss that is a mean over `batch` samples.
  Eigen::VectorXd gradient(const Eigen::VectorXd& parameters, Eigen::Index first, double batch);
  double loss(const Eigen::VectorXd& parameters, Eigen::Index first, double batch);

  // The elements of a bucket in a vector of all.
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

/// Parameters after so many steps.
Eigen::VectorXd train_plainly(TrainingTask, int global_batch, int steps);

/// Infinite where a number is none.
double largest_difference(const Eigen::VectorXd&, const Eigen::VectorXd&);

}  // namespace trainyard
