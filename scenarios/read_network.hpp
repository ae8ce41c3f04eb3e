#pragma once
#include "models/catalog.hpp"
#include "models/network.hpp"

namespace trainyard {

struct NetworkSettings {
  std::int64_t micro_batch_size = 1;
  Precision precision = Precision::bf16;
  bool fused_loss = false;
};

/// The `model` of a scenario: a name of the catalog, `{config: FILE}` (a Hugging Face config, beside the scenario or in
/// the catalog), its fields in place, `{cnn: {input, blocks, layers}}` or `{mlp: {widths, loss}}`. Reads
/// `flash_attention` of the plan and, for a transformer, `seq_length` and `decoder_seq_length` (of an encoder-decoder;
/// see `TransformerOptions`). Throws UserError with the place.
Network read_network(const Node& model, const Catalog&, Fields& plan, const NetworkSettings&);

}  // namespace trainyard
