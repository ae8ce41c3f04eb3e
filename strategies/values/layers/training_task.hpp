#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <variant>

#include "models/networks/mlp/mlp.hpp"
#include "models/networks/transformers/transformer.hpp"
#include "strategies/values/layers/optimizer_state.hpp"

namespace trainyard {

/// What an MLP learns from: a sample a column. A training that needs more begins with the first one again.
struct SampleSet {
  Eigen::MatrixXd inputs, targets;
};

/// What a transformer learns from: a sample a column, of one word more than it has tokens; each word predicts the next.
using Sentences = Eigen::MatrixXi;

/// What is trained, and how. Initial values depend on the seed and their own numbers alone; so do samples and targets
/// where none are given.
struct TrainingTask {
  std::variant<MlpShape, TransformerConfig> model;
  int micro_batch_size = 1;  ///< samples
  int seq_length = 1;        ///< tokens a sample; 1 for an MLP
  std::uint64_t seed = 1;
  UpdateRule rule;
  std::shared_ptr<const SampleSet> samples;    ///< of an MLP; null: drawn
  std::shared_ptr<const Sentences> sentences;  ///< of a transformer; null: drawn
};

}  // namespace trainyard
