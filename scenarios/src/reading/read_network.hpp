#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/networks/layers/fusions.hpp"
#include "models/networks/layers/network.hpp"
#include "models/networks/layers/sharding.hpp"
#include "models/networks/network_entry.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {

struct Mesh;

/// The `model` of a scenario, from which `network_of` makes the network of any shard.
struct ModelChoice {
  NetworkEntry entry;
  TransformerOptions options;  ///< without the sharding
  std::int64_t seq_length = 1;
  Place place, seq_length_place;
  /// Numbers of blocks at either end whose products stay in 16 bits if the other blocks multiply in fp8 or fewer bits.
  std::int64_t wide_blocks_first = 0, wide_blocks_last = 0;
  Place wide_blocks_place;
  /// For each part ("tensor", "sequence", "context", "expert", "recompute", "linear_split") whose key the plan has: the
  /// path and place of that key.
  std::map<std::string, std::pair<std::string, Place>> split_keys;
  /// For each part ("tensor", "context", "expert", "expert_tensor"): the GPUs that its ranks must divide, which errors
  /// count. No entry: not known.
  std::map<std::string, std::int64_t> places;
};

/// Reads `model`: a name of the catalog, `{config: FILE}` (a Hugging Face config, beside the scenario or in the
/// catalog), its fields in place, `{cnn: {input, blocks, layers}}` or `{mlp: {widths, loss}}`. Also reads
/// `flash_attention` of the plan and, for a transformer, `seq_length`, `decoder_seq_length` (of an encoder-decoder; see
/// `TransformerOptions`), `unpadded`, `bf16_blocks` and `lora`. Throws UserError with the place. `entry`: the network's
/// description if it was read before, else null.
ModelChoice read_model(const Node& model, const Catalog&, Fields& plan, const Fusions&,
                       const NetworkEntry* entry = nullptr);

/// Returns the map of the fields of a `model`: from a config file, from the catalog, or in place. Throws UserError.
Node model_document(const Node& model, const Catalog&);

/// Makes the whole network for a micro-batch. Throws UserError with the place for lengths and shards that the network
/// cannot have.
Network network_of(const ModelChoice&, std::int64_t micro_batch_size, Precision);
/// Makes one rank's part of the network. `own_head`: a tied output projection is on another pipeline stage than the
/// embedding, and has a weight of its own.
Network network_of(const ModelChoice&, std::int64_t micro_batch_size, Precision, const Sharding&, bool own_head);
/// Sets the GPUs that the ranks of each part of the network must divide. Stages of unequal ranks have no such numbers.
void find_places(ModelChoice&, const Mesh&, std::int64_t gpus);
/// Returns true if the head shares its weight with the embedding.
bool ties_head(const ModelChoice&);

/// The number of layers of a `model`, and the keys that state it: `n_layer`, `num_hidden_layers` or `num_layers`, and
/// `num_decoder_layers` if that is given. No keys: the network is not described by a number of layers.
struct LayerCount {
  std::vector<std::string> keys;
  std::int64_t count = 0;
};
LayerCount layer_count(const Node& model, const Catalog&);

/// Returns the numbers that ranks of a `model` must divide; all 0 if the model cannot be read.
RanksRoom ranks_room_of(const Node& model, const Catalog&);

/// Returns the number of positions of a transformer; nullopt: the network is another one, which has no `seq_length`, or
/// the length of its samples itself.
std::optional<std::int64_t> most_positions(const Node& model, const Catalog&);

}  // namespace trainyard
