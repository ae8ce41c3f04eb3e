#include "models/networks/network_entry.hpp"

#include <fmt/format.h>

namespace trainyard {
namespace {

MlpShape read_mlp(const Node& node) {
  Fields mlp(node, "mlp");
  const Node& widths = mlp.required_child("widths");
  if (widths.kind != Node::Kind::list) fail(widths.place, "mlp.widths: expected a list such as [784, 128, 10]");
  MlpShape shape;
  for (const Node& width : widths.items)
    shape.widths.push_back(static_cast<int>(whole_number(width, "mlp.widths", 1, 1 << 24)));
  constexpr std::size_t most_widths = 10000;
  if (shape.widths.size() > most_widths)
    fail(widths.place, fmt::format("mlp.widths: {} widths; at most {}", shape.widths.size(), most_widths));
  if (shape.widths.size() < 2) fail(widths.place, "mlp.widths: expected at least an input and an output width");
  shape.loss = mlp.one_of("loss", {"mean_squared_error", "softmax_cross_entropy"}, MlpLoss::mean_squared_error);
  mlp.finish();
  return shape;
}

}  // namespace

NetworkEntry read_network_entry(const Node& node) {
  NetworkEntry entry;
  if (!node.find("cnn") && !node.find("mlp")) {
    TransformerConfig config = read_transformer(node);
    entry.name = config.name;
    entry.source = config.source;
    entry.type = config.model_type;
    entry.shape = std::move(config);
    return entry;
  }
  entry.type = node.find("cnn") ? "cnn" : "mlp";
  Fields fields(node, "model");
  entry.name = fields.text("name", entry.type);
  entry.source = fields.text("_source", "");
  fields.text("description", "");
  const Node& shape = fields.required_child(entry.type);
  fields.finish();
  if (entry.type == "cnn")
    entry.shape = read_cnn(shape, entry.name, entry.source);
  else
    entry.shape = read_mlp(shape);
  return entry;
}

Network make_network(const NetworkEntry& entry, std::int64_t micro_batch_size, std::int64_t seq_length,
                     Precision precision, const TransformerOptions& options) {
  if (const TransformerConfig* config = entry.transformer())
    return transformer_network(*config, micro_batch_size, seq_length, precision, options);
  if (const Cnn* cnn = entry.cnn()) return cnn_network(*cnn, micro_batch_size, precision, options, options.sharding);
  Network network = mlp_network(*entry.mlp(), micro_batch_size, precision, options.sharding);
  network.name = entry.name;
  network.source = entry.source;
  return network;
}

std::string sample_text(const NetworkEntry& entry) {
  if (const Cnn* cnn = entry.cnn()) return cnn->input.text();
  if (const MlpShape* mlp = entry.mlp()) return fmt::format("{}", mlp->widths.front());
  const std::int64_t tokens = sample_tokens(entry), decoder = decoder_tokens(*entry.transformer(), tokens);
  if (decoder > 0) return fmt::format("{} + {} tokens", tokens, decoder);
  return tokens == 1 ? "1 token" : fmt::format("{} tokens", tokens);
}

RanksRoom ranks_room(const NetworkEntry& entry) {
  const TransformerConfig* config = entry.transformer();
  if (!config) return {.experts = 1, .expert_columns = 1};
  const bool has_experts = config->experts.count > 0;
  return {tensor_room(*config), has_experts ? config->experts.count : 1,
          has_experts ? config->experts.intermediate_size : 1, config->has_tables};
}

std::int64_t sample_tokens(const NetworkEntry& entry) {
  const TransformerConfig* config = entry.transformer();
  return config ? config->max_position_embeddings : 1;
}

}  // namespace trainyard
