#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <variant>

#include "models/networks/mlp/mlp.hpp"
#include "models/networks/transformers/transformer.hpp"
#include "strategies/values/layers/parameter_update.hpp"
#include "strategies/values/layers/update_rule.hpp"

namespace trainyard {

/// Samples of an MLP, one in each column. After the last sample the training continues with the first.
struct SampleSet {
  Eigen::MatrixXd inputs, targets;
};

/// Samples of a transformer, one in each column. A sample has one word more than tokens: each word predicts the next.
using Sentences = Eigen::MatrixXi;

/// A model, its samples and its update rule. Initial values only depend on the seed and the element numbers. Without
/// given samples, samples and targets are random and only depend on the seed and their numbers.
struct TrainingTask {
  std::variant<MlpShape, TransformerConfig> model;
  int micro_batch_size = 1;  ///< number of samples
  int seq_length = 1;        ///< tokens per sample; 1 for an MLP
  std::uint64_t seed = 1;
  UpdateRule rule;
  std::shared_ptr<const SampleSet> samples;    ///< samples of an MLP; null: random
  std::shared_ptr<const Sentences> sentences;  ///< samples of a transformer; null: random
};

}  // namespace trainyard
