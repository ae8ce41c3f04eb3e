// What the layers of the families are put together from.
#include "models/transformers/layout.hpp"

namespace trainyard::transformers {

void begin_branch(LayerBuilder& b, const TransformerLayout& l, const std::string& name) {
  b.fork(name + "_residual", l.hidden());
  if (!l.config.norm_after) b.norm(l.config.norm, name + "_norm", l.hidden());
}

void end_branch(LayerBuilder& b, const TransformerLayout& l, const std::string& name) {
  if (l.config.residual_dropout > 0)
    b.dropout({.name = name + "_residual_dropout", .width = l.hidden(), .shares_fork_gradient = true});
  b.join(name + "_residual");
  if (l.config.norm_after) b.norm(l.config.norm, name + "_norm", l.hidden());
}

void attention_branch(LayerBuilder& b, const TransformerLayout& l) {
  const AttentionShape shape = self_attention_shape(l);
  begin_branch(b, l, "attention");
  self_attention(b, l, shape);
  output_projection(b, l, shape);
  end_branch(b, l, "attention");
}

void feed_forward_branch(LayerBuilder& b, const TransformerLayout& l) {
  begin_branch(b, l, "mlp");
  feed_forward(b, l, {.width = l.ffn(), .shares_fork_gradient = l.config.residual_dropout == 0});
  end_branch(b, l, "mlp");
}

void first_token(LayerBuilder& b, const TransformerLayout& l) {
  const Bytes all = b.row_bytes(l.hidden());
  b.set_rows(l.samples);
  const Bytes first = b.row_bytes(l.hidden());
  Operator op;  // backward: a cleared gradient of all tokens with one row a sample
  op.forward.push_back(elementwise("first_token", first * 2, l.precision));
  op.backward.push_back({elementwise("first_token.backward", all + first * 2, l.precision), {}});
  op.forward_live = first;
  op.backward_live = all + first;
  b.add(std::move(op));
}

void add_positions(LayerBuilder& b, const TransformerLayout& l, const std::string& name, Bytes positions, int terms) {
  const Bytes tensor = b.row_bytes(l.hidden());
  Operator sum;
  sum.forward.push_back(elementwise(name, tensor * terms + positions, l.precision));
  // One row of positions serves every sample, so its gradient is summed over them.
  if (l.samples > 1) sum.backward.push_back({elementwise(name + ".backward", tensor + positions, l.precision), {}});
  sum.forward_live = tensor * terms + positions;
  sum.backward_live = tensor + positions;
  b.add(std::move(sum));
}

Layer embedding_layer(const TransformerLayout& l) {
  LayerBuilder b = l.builder("embedding");
  const Bytes tensor = b.row_bytes(l.hidden());
  b.embedding({.name = "token_embedding",
               .entries = l.vocab(),
               .width = l.hidden(),
               .lookups = l.rows(),
               .tied = l.config.tie_word_embeddings});
  if (l.config.position_embedding == PositionEmbedding::learned) {
    const double positions = static_cast<double>(l.config.max_position_embeddings);
    b.embedding({.name = "position_embedding", .entries = positions, .width = l.hidden(), .lookups = l.seq});
    add_positions(b, l, "embedding_sum", l.size() * (l.seq * l.hidden()), 2);
  }
  if (l.config.embedding_dropout > 0) b.dropout({.name = "embedding_dropout", .width = l.hidden()});
  return std::move(b).build(tensor);
}

Layer dense_block(const TransformerLayout& l, std::int64_t index) {
  LayerBuilder b = l.builder("block " + std::to_string(index));
  attention_branch(b, l);
  feed_forward_branch(b, l);
  const Bytes output = b.row_bytes(l.hidden());
  return std::move(b).build(output);
}

Layer language_head(const TransformerLayout& l) {
  LayerBuilder b = l.builder("head");
  b.norm(l.config.norm, "final_norm", l.hidden());
  const LayerBuilder::Linear projection{.name = "output", .in = l.hidden(), .out = l.vocab()};
  if (l.config.tie_word_embeddings)
    b.tied_linear(projection);
  else
    b.linear(projection);
  b.cross_entropy(l.vocab(), l.options.fused_loss);
  return std::move(b).build(Bytes{});
}

std::vector<Layer> decoder_layers(const TransformerLayout& l,
                                  Layer (*block)(const TransformerLayout&, std::int64_t index)) {
  std::vector<Layer> layers{embedding_layer(l)};
  for (std::int64_t i = 0; i < l.config.num_hidden_layers; ++i) layers.push_back(block(l, i));
  layers.push_back(language_head(l));
  return layers;
}
std::vector<Layer> decoder_layers(const TransformerLayout& l) { return decoder_layers(l, dense_block); }

}  // namespace trainyard::transformers
