#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "models/networks/layers/sharding.hpp"
#include "models/networks/mlp/mlp.hpp"
#include "models/networks/transformers/transformer.hpp"
#include "strategies/values/layers/graph.hpp"

namespace trainyard {

/// What is trained, and how. Initial values, samples and targets depend on the seed and their own numbers alone.
struct NumericStepTask {
  std::variant<MlpShape, TransformerConfig> model;
  int micro_batch_size = 1;  ///< samples
  int seq_length = 1;        ///< tokens a sample; 1 for an MLP
  std::uint64_t seed = 1;

  enum class Update : std::uint8_t { momentum, adam };
  Update update = Update::momentum;
  double learning_rate = 0.1;
  double momentum = 0.9;                             ///< of Update::momentum
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  ///< of Update::adam (Kingma & Ba 2015)
};

namespace numeric {

/// Which tokens a rank's columns are.
struct Tokens {
  std::vector<Index> sample;    ///< of the micro-batch
  std::vector<Index> position;  ///< in the sample
  Index size() const { return static_cast<Index>(sample.size()); }
};

/// A rank's place among those that share a layer.
struct RankPlace {
  const NumericStepTask& task;
  const Sharding& sharding;
  int tensor = 0, context = 0, expert = 0;
  Index vocabulary = 0;  ///< rows of the embedding on all tensor ranks together, padding included

  const TransformerConfig& config() const { return std::get<TransformerConfig>(task.model); }
  bool sequence() const { return sharding.sequence && sharding.tensor > 1; }
  bool all_to_all() const { return sharding.context > 1 && sharding.context_exchange == ContextExchange::all_to_all; }
  bool ring() const { return sharding.context > 1 && !all_to_all(); }
  /// Of a context rank, sample by sample. Causal rings: block r and block 2c − 1 − r of 2c, so that all have as many
  /// pairs; else block r of c.
  Tokens tokens(int context_rank) const;
  Tokens tokens() const { return tokens(context); }
  /// Of the rank's tokens those on which it alone works between tensor-parallel layers.
  Tokens own_tokens() const;
};

/// Samples of a micro-batch, by their numbers in all of the training.
struct Batch {
  Index first_sample = 0;
  double scale = 1;  ///< of the loss: 1 / tokens of the global batch
};

}  // namespace numeric
}  // namespace trainyard
