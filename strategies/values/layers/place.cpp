#include "strategies/values/layers/place.hpp"

#include "strategies/values/layers/layer_shard.hpp"

namespace trainyard::numeric {

Tokens RankPlace::tokens(int context_rank) const {
  const Index seq = task.seq_length;
  std::vector<Index> positions;
  if (ring() && config().causal) {
    positions = part(seq, context_rank, 2 * sharding.context);
    const std::vector<Index> mirrored = part(seq, 2 * sharding.context - 1 - context_rank, 2 * sharding.context);
    positions.insert(positions.end(), mirrored.begin(), mirrored.end());
  } else {
    positions = part(seq, context_rank, sharding.context);
  }
  Tokens tokens;
  for (Index sample = 0; sample < task.micro_batch_size; ++sample)
    for (const Index position : positions) {
      tokens.sample.push_back(sample);
      tokens.position.push_back(position);
    }
  return tokens;
}

Tokens RankPlace::own_tokens() const {
  const Tokens all = tokens();
  if (!sequence()) return all;
  Tokens tokens;
  for (const Index i : part(all.size(), tensor, sharding.tensor)) {
    tokens.sample.push_back(all.sample[i]);
    tokens.position.push_back(all.position[i]);
  }
  return tokens;
}

}  // namespace trainyard::numeric
