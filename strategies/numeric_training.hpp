#pragma once
#include <Eigen/Core>
#include <vector>

#include "models/mlp.hpp"
#include "sim/values.hpp"
#include "strategies/data_parallel.hpp"

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

/// Carries out on real arrays what the data-parallel programs say: one replica of the network a rank, gradients in the
/// buckets that the schedule exchanges, sums of gradients applied as they arrived.
class NumericTraining {
 public:
  NumericTraining(const NumericTask&, const Network&, const DataParallelPlan&);

  /// Registers the calls of the schedule; both must live until the run has ended.
  void attach(Values&);

  const Mlp& replica(int rank) const { return replicas_[static_cast<std::size_t>(rank)].mlp; }
  int updates(int rank) const { return replicas_[static_cast<std::size_t>(rank)].updates; }
  /// All ranks hold the same weights, bit for bit.
  bool replicas_identical() const;

 private:
  struct Replica {
    Mlp mlp;
    std::vector<Eigen::MatrixXd> activations;  // [0] the input, [l + 1] the output of layer l
    Eigen::MatrixXd gradient;                  // by the output of the layer below
    std::vector<Eigen::VectorXd> gradients;    // by layer
    int updates = 0;
  };
  const NumericTask& task_;
  const Network& network_;
  const DataParallelPlan& plan_;
  std::vector<Replica> replicas_;
  Values* values_ = nullptr;

  std::pair<Eigen::Index, Eigen::Index> samples(int rank, int micro_batch) const;
  void forward(Actor, int layer, int micro_batch);
  void backward(Actor, int layer, int micro_batch);
  void fill(Actor, std::uint16_t bucket);
  void update(Actor);
  /// Where a part of a bucket lies in the gradient of its layer: first element.
  Eigen::Index offset(const GradientBucket::Part&) const;
};

/// The same training on one device without any schedule: what every strategy must reproduce.
Mlp train_plainly(const NumericTask&, int steps);

/// Largest difference between the parameters of two networks of one shape.
double largest_difference(const Mlp&, const Mlp&);

}  // namespace trainyard
