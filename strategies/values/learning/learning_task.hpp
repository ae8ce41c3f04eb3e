#pragma once
#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace trainyard {

/// How good some parameters are on samples that nobody learns from.
struct TaskScore {
  double loss = 0;  ///< mean over samples
  double accuracy =
      std::numeric_limits<double>::quiet_NaN();  ///< part of the predictions that are right; NaN: there are none
};

/// A small training problem: a function of parameters whose mean over samples is to become small. Whoever asks, the same
/// parameters and samples give the same numbers.
class LearningTask {
 public:
  using Vector = Eigen::VectorXd;
  using Index = Eigen::Index;
  /// What lars and lamb take the norm of: a part of the parameters.
  struct Tensor {
    Index first = 0, count = 0;
  };

  virtual ~LearningTask() = default;
  virtual Index size() const = 0;  ///< parameters
  virtual std::vector<Tensor> tensors() const { return {{0, size()}}; }
  virtual Vector initial() const = 0;
  virtual Index samples() const = 0;  ///< of an epoch; 0: all are different
  /// Adds `scale` times the gradient of the sum of the samples' losses to `sum`, and returns that sum, not scaled.
  virtual double add_gradient(const Vector& parameters, std::span<const Index> samples, double scale,
                              Vector& sum) const = 0;
  virtual TaskScore score(const Vector& parameters) const = 0;
  /// "mlp 20-64-64-10 (6,154 parameters), 4,096 samples in clusters".
  virtual std::string in_words() const = 0;
};

/// Samples in the order in which a training meets them: each epoch is shuffled in its own way.
class SampleOrder {
 public:
  SampleOrder(std::uint64_t seed, Eigen::Index samples) : seed_(seed), samples_(samples) {}
  /// Number i of the whole training.
  Eigen::Index at(std::int64_t i);

 private:
  std::uint64_t seed_;
  Eigen::Index samples_;
  struct Epoch {
    std::int64_t number = -1;
    std::vector<Eigen::Index> order;
  };
  Epoch epochs_[4];  // workers may be in several at a time
};

}  // namespace trainyard
