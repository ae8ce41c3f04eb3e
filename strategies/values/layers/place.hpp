#pragma once
#include <vector>

#include "models/networks/layers/sharding.hpp"
#include "strategies/values/layers/graph.hpp"
#include "strategies/values/layers/training_task.hpp"

namespace trainyard::numeric {

/// The tokens of a matrix's columns.
struct Tokens {
  std::vector<Index> sample;    ///< number of the sample in the micro-batch
  std::vector<Index> position;  ///< position in the sample
  Index size() const { return static_cast<Index>(sample.size()); }
};

/// A rank's coordinates among the ranks that hold a layer together.
struct RankPlace {
  const TrainingTask& task;
  const Sharding& sharding;
  int tensor = 0, context = 0, expert = 0;
  Index vocabulary = 0;   ///< rows of the embedding on all tensor ranks together, including padding
  int expert_tensor = 0;  ///< the rank's part of an expert's columns

  const TransformerConfig& config() const { return std::get<TransformerConfig>(task.model); }
  bool sequence() const { return sharding.sequence && sharding.tensor > 1; }
  /// The tokens of a context rank, sample by sample. In causal rings rank r of c has the blocks r and 2c − 1 − r of 2c,
  /// so that all ranks have the same number of pairs; otherwise it has block r of c. Ranks that exchange heads stand for
  /// one rank of the ring, and divide its tokens.
  Tokens tokens(int context_rank) const;
  Tokens tokens() const { return tokens(context); }
  /// The tokens that the rank computes between tensor-parallel layers: with sequence parallelism its share of
  /// `tokens()`, which no other tensor rank computes, otherwise all of them.
  Tokens own_tokens() const;
};

/// The samples of a micro-batch.
struct Batch {
  Index first_sample = 0;  ///< number of the first sample in the whole training
  double scale = 1;        ///< factor of the loss: 1 / tokens of the global batch
};

}  // namespace trainyard::numeric
