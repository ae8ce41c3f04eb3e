// The parts from which the layers of the families are built.
#include <fmt/format.h>

#include "models/networks/transformers/layout.hpp"

namespace trainyard::transformers {

void residual_norm(LayerBuilder& b, const TransformerLayout& l, const std::string& name, bool casts) {
  b.set_partial(l.sequence_parallel());
  b.set_module(RecomputedPart::layernorm);
  b.norm(l.config.norm, name, l.hidden(), casts);
  b.set_module(RecomputedPart::none);
  b.set_partial(false);
}

void begin_branch(LayerBuilder& b, const TransformerLayout& l, const std::string& name, Readers readers) {
  b.fork(name + "_residual", l.hidden());
  if (l.norms_input()) residual_norm(b, l, name + "_norm", readers == Readers::products && l.norms_cast());
}

void end_branch(LayerBuilder& b, const TransformerLayout& l, const std::string& name) {
  if (l.norms_output()) residual_norm(b, l, name + "_output_norm");
  const bool dropout = l.config.residual_dropout > 0, fused = l.options.fused_bias_dropout_add;
  if (dropout)
    b.dropout({.name = name + "_residual_dropout", .width = l.hidden(), .shares_fork_gradient = true, .fused = fused});
  b.join(name + "_residual", dropout && fused ? Bytes{b.rows() * l.hidden()} : Bytes{});
  if (l.config.norm_place == NormPlace::after) residual_norm(b, l, name + "_norm");
}

void attention_branch(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  const AttentionShape shape = self_attention_shape(l, index);
  begin_branch(b, l, "attention", readers_of(l, LinearPart::qkv));
  begin_columns(b, l, "attention", readers_of(l, LinearPart::qkv));
  self_attention(b, l, shape);
  output_projection(b, l, shape);
  end_rows(b, l, "attention");
  if (l.config.attention_output_bias) row_bias(b, l, "projection.bias");
  end_branch(b, l, "attention");
}

void feed_forward_branch(LayerBuilder& b, const TransformerLayout& l) {
  begin_branch(b, l, "mlp", readers_of(l, LinearPart::mlp_in));
  begin_columns(b, l, "mlp", readers_of(l, LinearPart::mlp_in));
  b.set_region(RecomputedPart::mlp);
  feed_forward(
      b, l, {.width = l.ffn(), .shares_fork_gradient = l.adds_output(), .readers = readers_of(l, LinearPart::mlp_in)});
  b.set_region(RecomputedPart::none);
  end_rows(b, l, "mlp");
  if (l.config.mlp_bias) row_bias(b, l, l.config.gated_mlp ? "down.bias" : "fc2.bias");
  end_branch(b, l, "mlp");
}

void select_rows(LayerBuilder& b, const TransformerLayout& l, const std::string& name, double rows) {
  const Bytes all = b.row_bytes(l.hidden());
  b.set_rows(rows);
  const Bytes selected = b.row_bytes(l.hidden());
  Operator op;  // backward: a zero gradient of all rows, into which the selected rows are written
  op.forward.push_back(elementwise(name, selected * 2, l.precision));
  op.backward.push_back({elementwise(name + ".backward", all + selected * 2, l.precision), {}});
  op.forward_live = selected;
  op.backward_live = all + selected;
  b.add(std::move(op));
}

void add_positions(LayerBuilder& b, const TransformerLayout& l, const std::string& name, Bytes positions, int terms) {
  const Bytes tensor = b.residual_bytes(l.hidden());
  Operator sum;
  sum.forward.push_back(elementwise(name, tensor * terms + positions, l.precision));
  // All samples have the same positions, so their gradient is summed over the samples.
  if (l.samples > 1) sum.backward.push_back({elementwise(name + ".backward", tensor + positions, l.precision), {}});
  sum.forward_live = tensor * terms + positions;
  sum.backward_live = tensor + positions;
  b.add(std::move(sum));
}

/// Each rank looks up the tokens in its part of the vocabulary. The sum over ranks has the rows of all tokens.
void token_embedding(LayerBuilder& b, const TransformerLayout& l, const std::string& prefix) {
  const bool first = prefix.empty();
  b.set_rows(l.rows());
  b.embedding({.name = prefix + "token_embedding",
               .entries = l.vocab(),
               .width = l.hidden(),
               .lookups = l.rows(),
               .tied = first && (l.config.tie_word_embeddings || l.config.further_tokens > 0),
               .owned = first});
  if (!l.tensor_parallel()) return;
  LayerBuilder::Crossing c;
  c.in = l.hidden_bytes();
  c.out = l.hidden_bytes() / l.sequence_shares();
  if (l.sequence_parallel()) {
    c.forward = {prefix + "embedding.scatter", Axis::tensor, ExchangeKind::reduce_scatter, c.in};
    c.backward = {prefix + "embedding.gather", Axis::tensor, ExchangeKind::all_gather, c.in};
  } else {
    c.forward = {prefix + "embedding.reduce", Axis::tensor, ExchangeKind::all_reduce, c.in};
  }
  b.cross(std::move(c));
  b.set_rows(l.residual_rows());
}

Layer embedding_layer(const TransformerLayout& l) {
  LayerBuilder b = l.builder("embedding");
  token_embedding(b, l);
  const Bytes tensor = b.residual_bytes(l.hidden());
  if (l.config.position_embedding == PositionEmbedding::learned) {
    const double positions = static_cast<double>(l.config.max_position_embeddings);
    const double rank_tokens = l.tokens() / l.sequence_shares();
    b.set_partial(l.sequence_parallel());
    b.embedding({.name = "position_embedding", .entries = positions, .width = l.hidden(), .lookups = rank_tokens});
    b.set_partial(false);
    add_positions(b, l, "embedding_sum", b.residual_element() * (rank_tokens * l.hidden()), 2);
  }
  if (l.config.embedding_norm) residual_norm(b, l, "embedding_norm");
  if (l.config.embedding_dropout > 0) b.dropout({.name = "embedding_dropout", .width = l.hidden()});
  return std::move(b).build(tensor);
}

Layer dense_block(const TransformerLayout& l, std::int64_t index) {
  LayerBuilder b = l.builder("block " + std::to_string(index));
  attention_branch(b, l, index);
  feed_forward_branch(b, l);
  return l.finish_block(std::move(b));
}

namespace {

/// Layers that predict further tokens (DeepSeek-AI 2024, DeepSeek-V3, section 2.2). Each projects the hidden state and the
/// embedding of the next token to one row, which goes through one more block, and then through the output projection of
/// the model. The projection is not split over tensor ranks: each computes its own rows.
void predict_further_tokens(LayerBuilder& b, const TransformerLayout& l, Branches branches) {
  for (std::int64_t i = 0; i < l.config.further_tokens; ++i) {
    const std::string prefix = l.config.further_tokens > 1 ? fmt::format("mtp.{}.", i) : "mtp.";
    token_embedding(b, l, prefix);
    residual_norm(b, l, prefix + "embedding_norm");
    residual_norm(b, l, prefix + "hidden_norm");
    b.set_fp8(l.products());
    const Bytes both = b.row_bytes(2 * l.hidden());
    b.mover(prefix + "concat", both, both);
    b.set_partial(l.sequence_parallel());
    b.linear({.name = prefix + "projection", .in = 2 * l.hidden(), .out = l.hidden()});
    b.set_partial(false);
    branches(b, l, l.config.num_hidden_layers + i);
    residual_norm(b, l, prefix + "final_norm");
    vocabulary_loss(b, l, false, prefix);
  }
}

}  // namespace

Layer language_head(const TransformerLayout& l, Branches branches) {
  LayerBuilder b = l.builder("head");
  residual_norm(b, l, "final_norm");
  vocabulary_loss(b, l, l.config.head_bias);
  if (branches) predict_further_tokens(b, l, branches);
  return std::move(b).build(Bytes{});
}

void vocabulary_loss(LayerBuilder& b, const TransformerLayout& l, bool bias, const std::string& prefix) {
  b.set_fp8({});
  const std::string head = prefix + "head";
  begin_columns(b, l, head, Readers::others);
  LayerBuilder::Linear projection = column_linear(l, head, true, Readers::others);
  projection.name = prefix + "output";
  projection.out = l.vocab();
  projection.bias = bias;
  if (l.sequence_parallel() && l.options.lasting_gather_buffer) {
    projection.regather_buffer = false;
    b.add_lasting(l.hidden_bytes());
  }
  if (l.config.tie_word_embeddings || !prefix.empty())
    b.tied_linear(projection);
  else
    b.linear(projection);
  const std::size_t loss = b.operators();
  if (l.tensor_parallel())
    b.sharded_cross_entropy(head, l.vocab(), l.options.fused_loss);
  else
    b.cross_entropy(l.vocab(), l.options.fused_loss);
  if (l.options.loss_traffic.value > 0) b.set_traffic(loss, l.options.loss_traffic * (b.rows() * l.vocab()));
}

std::vector<Layer> decoder_layers(const TransformerLayout& l,
                                  Layer (*block)(const TransformerLayout&, std::int64_t index)) {
  std::vector<Layer> layers{embedding_layer(l)};
  for (std::int64_t i = 0; i < l.config.num_hidden_layers; ++i) layers.push_back(block(l, i));
  layers.push_back(language_head(l));
  return layers;
}
std::vector<Layer> decoder_layers(const TransformerLayout& l, Branches branches) {
  std::vector<Layer> layers{embedding_layer(l)};
  for (std::int64_t i = 0; i < l.config.num_hidden_layers; ++i) {
    LayerBuilder b = l.builder("block " + std::to_string(i));
    branches(b, l, i);
    layers.push_back(l.finish_block(std::move(b)));
  }
  layers.push_back(language_head(l, branches));
  return layers;
}
std::vector<Layer> decoder_layers(const TransformerLayout& l) { return decoder_layers(l, dense_block); }

}  // namespace trainyard::transformers
