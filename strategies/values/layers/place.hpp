#pragma once
#include <vector>

#include "models/networks/layers/sharding.hpp"
#include "strategies/values/layers/graph.hpp"
#include "strategies/values/layers/training_task.hpp"

namespace trainyard::numeric {

/// Which tokens a rank's columns are.
struct Tokens {
  std::vector<Index> sample;    ///< of the micro-batch
  std::vector<Index> position;  ///< in the sample
  Index size() const { return static_cast<Index>(sample.size()); }
};

/// A rank's place among those that share a layer.
struct RankPlace {
  const TrainingTask& task;
  const Sharding& sharding;
  int tensor = 0, context = 0, expert = 0;
  Index vocabulary = 0;   ///< rows of the embedding on all tensor ranks together, padding included
  int expert_tensor = 0;  ///< which part of an expert's columns

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

}  // namespace trainyard::numeric
