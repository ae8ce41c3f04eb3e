#pragma once
#include <map>
#include <string>
#include <vector>

#include "models/networks/layers/fusions.hpp"
#include "models/networks/layers/network.hpp"
#include "models/networks/layers/sharding.hpp"
#include "models/networks/network_entry.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {

/// The `model` of a scenario, of which networks of any share are made.
struct ModelChoice {
  NetworkEntry entry;
  TransformerOptions options;  ///< but for the sharding
  std::int64_t seq_length = 1;
  Place place, seq_length_place;
  /// Path and place of the keys that say "tensor", "sequence", "context", "expert", "recompute", where the plan does.
  std::map<std::string, std::pair<std::string, Place>> split_keys;
};

/// A name of the catalog, `{config: FILE}` (a Hugging Face config, beside the scenario or in the catalog), its fields in
/// place, `{cnn: {input, blocks, layers}}` or `{mlp: {widths, loss}}`. Reads `flash_attention` of the plan and, for a
/// transformer, `seq_length` and `decoder_seq_length` (of an encoder-decoder; see `TransformerOptions`). Throws UserError
/// with the place.
/// `known`: the network's own description, where it was read before.
ModelChoice read_model(const Node& model, const Catalog&, Fields& plan, const Fusions&,
                       const NetworkEntry* known = nullptr);

/// A micro-batch of so many samples. Throws UserError, with the place, for lengths and shares that it cannot have.
Network network_of(const ModelChoice&, std::int64_t micro_batch_size, Precision);
/// One rank's part of it. `own_head`: a tied output projection has a weight of its own, on another pipeline stage.
Network network_of(const ModelChoice&, std::int64_t micro_batch_size, Precision, const Sharding&, bool own_head);
/// Would a head on a stage of its own share its weight with the first layer?
bool ties_head(const ModelChoice&);

/// How many layers the `model` of a scenario has by its own fields: `n_layer`, `num_hidden_layers` or `num_layers`, with
/// `num_decoder_layers` where that is given. No keys where a network is not described so.
struct LayerCount {
  std::vector<std::string> keys;
  std::int64_t count = 0;
};
LayerCount layer_count(const Node& model, const Catalog&);

}  // namespace trainyard
