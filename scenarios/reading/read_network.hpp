#pragma once
#include "models/networks/layers/fusions.hpp"
#include "models/networks/layers/network.hpp"
#include "models/networks/layers/sharding.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {

struct NetworkSettings {
  std::int64_t micro_batch_size = 1;
  Precision precision = Precision::bf16;
  Fusions fusions;        ///< of the stack's library
  Sharding sharding;      ///< of transformers, CNNs and MLPs: the network is one rank's part
  bool own_head = false;  ///< a tied output projection has a weight of its own: it lies on another pipeline stage
};

/// The `model` of a scenario: a name of the catalog, `{config: FILE}` (a Hugging Face config, beside the scenario or in
/// the catalog), its fields in place, `{cnn: {input, blocks, layers}}` or `{mlp: {widths, loss}}`. Reads
/// `flash_attention` of the plan and, for a transformer, `seq_length` and `decoder_seq_length` (of an encoder-decoder;
/// see `TransformerOptions`). Throws UserError with the place.
/// `untied`: told whether `own_head` has parted a tied weight.
Network read_network(const Node& model, const Catalog&, Fields& plan, const NetworkSettings&, bool* untied = nullptr);

/// How many layers the `model` of a scenario has by its own fields: `n_layer`, `num_hidden_layers` or `num_layers`, with
/// `num_decoder_layers` where that is given. No keys where a network is not described so.
struct LayerCount {
  std::vector<std::string> keys;
  std::int64_t count = 0;
};
LayerCount layer_count(const Node& model, const Catalog&);

}  // namespace trainyard
