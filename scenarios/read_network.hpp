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
/// `flash_attention` and, for what is a text, `seq_length` of the plan.
/// Throws UserError with the place.
Network read_network(const Node& model, const Catalog&, Fields& plan, const NetworkSettings&);

}  // namespace trainyard
