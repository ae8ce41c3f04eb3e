#pragma once
#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <memory>
#include <variant>

#include "models/networks/mlp/mlp.hpp"
#include "models/networks/transformers/transformer.hpp"

namespace trainyard {

/// How parameters follow from gradients, element by element.
struct UpdateRule {
  enum class Kind : std::uint8_t { momentum, adam };
  Kind kind = Kind::momentum;
  double learning_rate = 0.1;
  double momentum = 0.9;                             ///< of Kind::momentum; 0: plain SGD
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  ///< of Kind::adam (Kingma & Ba 2015)

  /// `first`, `second`: moments of the gradient; `updates`: this one included.
  void step(double& parameter, double gradient, double& first, double& second, std::int64_t updates) const {
    if (kind == Kind::momentum) {
      first = momentum * first + gradient;
      parameter -= learning_rate * first;
      return;
    }
    const auto steps = static_cast<double>(updates);
    first = beta1 * first + (1 - beta1) * gradient;
    second = beta2 * second + (1 - beta2) * gradient * gradient;
    const double mean = first / (1 - std::pow(beta1, steps)), square = second / (1 - std::pow(beta2, steps));
    parameter -= learning_rate * mean / (std::sqrt(square) + epsilon);
  }
};

/// What the optimizer keeps of some parameters.
struct OptimizerState {
  Eigen::VectorXd first, second;
  std::int64_t updates = 0;

  void update(const UpdateRule& rule, Eigen::Ref<Eigen::VectorXd> parameters, const Eigen::VectorXd& gradient) {
    if (updates++ == 0) {
      first.setZero(gradient.size());
      second.setZero(gradient.size());
    }
    for (Eigen::Index i = 0; i < gradient.size(); ++i)
      rule.step(parameters[i], gradient[i], first[i], second[i], updates);
  }
};

/// What an MLP learns from: a sample a column. A training that needs more begins with the first one again.
struct SampleSet {
  Eigen::MatrixXd inputs, targets;
};

/// What is trained, and how. Initial values depend on the seed and their own numbers alone; so do samples and targets
/// where none are given.
struct TrainingTask {
  std::variant<MlpShape, TransformerConfig> model;
  int micro_batch_size = 1;  ///< samples
  int seq_length = 1;        ///< tokens a sample; 1 for an MLP
  std::uint64_t seed = 1;
  UpdateRule rule;
  std::shared_ptr<const SampleSet> samples;  ///< of an MLP; null: drawn
};

}  // namespace trainyard
