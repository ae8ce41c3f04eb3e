#pragma once
#include <string>
#include <variant>

#include "models/networks/cnn/cnn.hpp"
#include "models/networks/mlp/mlp.hpp"
#include "models/networks/transformers/transformer.hpp"

namespace trainyard {

/// A network in the catalog or in the `model` of a scenario: {cnn: …}, {mlp: {widths, loss}}, or the fields of a
/// Hugging Face config.
struct NetworkEntry {
  std::string name, source;
  std::string type;  ///< "cnn", "mlp", or a config's model_type
  std::variant<TransformerConfig, MlpShape, Cnn> shape;

  const TransformerConfig* transformer() const { return std::get_if<TransformerConfig>(&shape); }
  const MlpShape* mlp() const { return std::get_if<MlpShape>(&shape); }
  const Cnn* cnn() const { return std::get_if<Cnn>(&shape); }
};

/// Reads an entry. The keys `name`, `description` and `_source` are legal for a cnn and an mlp too. Throws UserError
/// with the place.
NetworkEntry read_network_entry(const Node&);

/// Returns the work of one micro-batch. `seq_length` and all options but fusions and `sharding` hold for transformers
/// only. The loss of an MLP is never fused.
Network make_network(const NetworkEntry&, std::int64_t micro_batch_size, std::int64_t seq_length, Precision,
                     const TransformerOptions& = {});

/// Returns a text for one sample: "3 x 224 x 224" (channels, height, width), "784" features, "1024 tokens" (the number
/// of positions), or "512 + 128 tokens" for an encoder-decoder.
std::string sample_text(const NetworkEntry&);
/// Returns the `seq_length` of such a sample; 1 if it has no tokens.
std::int64_t sample_tokens(const NetworkEntry&);

/// The numbers that ranks of a network must divide; 0: any number may.
struct RanksRoom {
  std::int64_t tensor = 0, experts = 0, expert_columns = 0;
  bool has_tables = false;  ///< all ranks that hold other samples share its tables of embeddings
};
RanksRoom ranks_room(const NetworkEntry&);

}  // namespace trainyard
