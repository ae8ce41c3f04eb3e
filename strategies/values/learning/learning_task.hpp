#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace trainyard {

/// Quality of parameters on the validation samples.
struct TaskScore {
  double loss = 0;  ///< mean over samples
  /// Share of right predictions; NaN if the task makes no predictions.
  double accuracy = std::numeric_limits<double>::quiet_NaN();
};

/// A small training problem: a function of parameters whose mean over samples is minimized. The same parameters and
/// samples always give the same numbers.
class LearningTask {
 public:
  using Vector = Eigen::VectorXd;
  using Index = Eigen::Index;
  /// A part of the parameters that some update rules must have as a whole.
  struct Tensor {
    Index first = 0, count = 0;
    Index rows = 1;      ///< rows of a matrix; 1: a vector
    bool inner = false;  ///< a matrix that is neither the head nor an embedding of a transformer
  };

  virtual ~LearningTask() = default;
  virtual Index size() const = 0;  ///< number of parameters
  virtual std::vector<Tensor> tensors() const { return {{0, size()}}; }
  virtual Vector initial() const = 0;
  virtual Index samples() const = 0;  ///< number of samples in an epoch; 0: no sample is repeated
  /// Adds `scale` times the gradient of the sum of the samples' losses to `sum`. Returns the unscaled sum of the
  /// losses.
  virtual double add_gradient(const Vector& parameters, std::span<const Index> samples, double scale,
                              Vector& sum) const = 0;
  virtual TaskScore score(const Vector& parameters) const = 0;
  /// Do its first parameter's values show where a training is? True for functions of a few parameters.
  virtual bool shows_position() const { return false; }
  /// A description such as "MLP 20-64-64-10 (6,154 parameters) on 4,096 samples".
  virtual std::string in_words() const = 0;
};

/// The order of the samples in a training. Each epoch has its own random order.
class SampleOrder {
 public:
  SampleOrder(std::uint64_t seed, Eigen::Index samples) : seed_(seed), samples_(samples) {}
  /// Returns the sample at position i of the training.
  Eigen::Index sample(std::int64_t i);

 private:
  std::uint64_t seed_;
  Eigen::Index samples_;
  struct Epoch {
    std::int64_t number = -1;
    std::vector<Eigen::Index> order;
  };
  Epoch epochs_[4];  // workers may be in different epochs at the same time
};

}  // namespace trainyard
