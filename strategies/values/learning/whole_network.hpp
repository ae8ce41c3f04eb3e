#pragma once
#include <memory>
#include <variant>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "strategies/values/layers/layer_shard.hpp"
#include "strategies/values/layers/training_task.hpp"
#include "strategies/values/learning/learning_task.hpp"

namespace trainyard::numeric {

/// Returns the undivided network of a task, in 64 bits.
Network network_of(const TrainingTask&);

/// A network of `layers/` on one device. Its parameters are one vector, layer by layer. No weight is tied.
class WholeNetwork {
 public:
  /// `seed`: seed of the initial values.
  WholeNetwork(std::variant<MlpShape, TransformerConfig> model, int seq_length, std::uint64_t seed);

  Index size() const { return size_; }
  std::vector<LearningTask::Tensor> tensors() const;
  Eigen::VectorXd initial() const;

  struct Samples {
    std::shared_ptr<const SampleSet> of_mlp;
    std::shared_ptr<const Sentences> of_transformer;
    Index count = 0;
  };
  /// Adds `scale` times the gradient of the sum of the losses to `sum`. Returns the unscaled sum of the losses.
  double add_gradient(const Eigen::VectorXd& parameters, const Samples&, double scale, Eigen::VectorXd& sum) const;
  struct Output {
    double loss = 0;  ///< sum of the losses
    Matrix values;    ///< output of the network; columns are samples, or tokens
  };
  Output output(const Eigen::VectorXd& parameters, const Samples&) const;

 private:
  TrainingTask task_;
  Network network_;
  Index vocabulary_ = 0;
  mutable std::vector<LayerShard> shards_;  ///< parameters of the present pass
  Index size_ = 0;

  class Pass;
  void set(const Eigen::VectorXd& parameters) const;
};

}  // namespace trainyard::numeric
