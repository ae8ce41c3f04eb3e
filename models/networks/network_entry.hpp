#pragma once
#include <string>
#include <variant>

#include "models/networks/cnn/cnn.hpp"
#include "models/networks/mlp/mlp.hpp"
#include "models/networks/transformers/transformer.hpp"

namespace trainyard {

/// What an entry of the catalog, or the `model` of a scenario, describes: {cnn: …}, {mlp: {widths, loss}}, or the fields
/// of a Hugging Face config.
struct NetworkEntry {
  std::string name, source;
  std::string type;  ///< "cnn", "mlp", or a config's model_type
  std::variant<TransformerConfig, MlpShape, Cnn> shape;

  const TransformerConfig* transformer() const { return std::get_if<TransformerConfig>(&shape); }
  const MlpShape* mlp() const { return std::get_if<MlpShape>(&shape); }
  const Cnn* cnn() const { return std::get_if<Cnn>(&shape); }
};

/// Throws UserError with the place. `name`, `description` and `_source` of an entry that is a cnn or mlp are kept.
NetworkEntry read_network_entry(const Node&);

/// One micro-batch. `seq_length` and the options but `fused_loss` and `sharding` are a transformer's; an MLP's loss is never fused.
Network make_network(const NetworkEntry&, std::int64_t micro_batch_size, std::int64_t seq_length, Precision,
                     const TransformerOptions& = {});

/// One sample: "3 x 224 x 224" (channels, height, width), "784" features, "1024 tokens" (as many as there are positions),
/// "512 + 128 tokens" of an encoder-decoder.
std::string sample_text(const NetworkEntry&);
/// The `seq_length` of such a sample; 1 where it has none.
std::int64_t sample_tokens(const NetworkEntry&);

}  // namespace trainyard
