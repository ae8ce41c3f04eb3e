#include "strategies/values/layers/place.hpp"

#include "strategies/values/layers/layer_shard.hpp"

namespace trainyard::numeric {

Tokens RankPlace::tokens(int context_rank) const {
  const Index seq = task.seq_length;
  const int heads = sharding.head_ranks(), rings = sharding.ring_ranks();
  std::vector<Index> positions;
  if (rings > 1 && config().causal) {
    const int group = context_rank / heads;
    std::vector<Index> blocks = part(seq, group, 2 * rings);
    const std::vector<Index> mirrored = part(seq, 2 * rings - 1 - group, 2 * rings);
    blocks.insert(blocks.end(), mirrored.begin(), mirrored.end());
    for (const Index i : part(static_cast<Index>(blocks.size()), context_rank % heads, heads))
      positions.push_back(blocks[i]);
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
