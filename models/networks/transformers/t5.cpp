// T5 (Raffel et al. 2020): encoder and decoder with a learned bias of relative positions.
#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// Reads T5's name of the feed-forward part: an activation, or "gated-" and an activation.
void read_t5_activation(Fields& f, TransformerConfig& c) {
  std::string name = f.choice(
      "feed_forward_proj",
      {"relu", "gelu", "gelu_new", "silu", "gated-relu", "gated-gelu", "gated-gelu_new", "gated-silu"}, "relu");
  c.gated_mlp = name.starts_with("gated-");
  c.activation = c.gated_mlp ? name.substr(6) : name;
}

/// Defaults are those of transformers.T5Config.
void read_t5(Fields& f, TransformerConfig& c) {
  c.vocab_size = read_size(f, "vocab_size");
  c.hidden_size = read_size(f, "d_model");
  c.num_hidden_layers = read_layers(f, {"num_layers"});
  c.num_decoder_layers = f.has("num_decoder_layers") ? read_layers(f, {"num_decoder_layers"}) : c.num_hidden_layers;
  c.num_attention_heads = read_size(f, "num_heads");
  c.num_key_value_heads = c.num_attention_heads;
  c.head_dim = read_size(f, "d_kv");
  c.intermediate_size = read_size(f, "d_ff");
  c.max_position_embeddings =
      read_size(f, "n_positions", 512);  // length in pre-training; there is no table of positions
  c.relative_buckets = read_size(f, "relative_attention_num_buckets", 32);
  c.position_embedding = PositionEmbedding::relative;
  c.causal = false;  // the decoder's mask is part of the bias
  c.norm = Norm::rms_norm;
  read_t5_activation(f, c);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = c.activation_dropout =
      read_probability(f, "dropout_rate", 0.1);
  if (!f.boolean("is_encoder_decoder", true))
    f.refuse("is_encoder_decoder", "T5's encoder without its decoder is not modelled");
  ignore_keys(f, {"classifier_dropout", "decoder_start_token_id", "dense_act_fn", "finetuning_task",
                  "gradient_checkpointing", "initializer_factor", "is_decoder", "is_gated_act", "layer_norm_epsilon",
                  "num_labels", "output_attentions", "output_hidden_states", "pruned_heads",
                  "relative_attention_max_distance", "tokenizer_class", "torchscript", "use_bfloat16"});
}

/// One half of the network, with the facts that its layers need.
struct T5Stack {
  std::string prefix;  ///< prefix of the layers' names
  double seq = 0;
  double share = 0;  ///< share of a sample's tokens in this half
  std::int64_t layers = 0;
};
T5Stack t5_encoder(const TransformerLayout& l) {
  return {"encoder ", l.seq, l.seq / (l.seq + l.decoder_seq), l.config.num_hidden_layers};
}
T5Stack t5_decoder(const TransformerLayout& l) {
  return {"decoder ", l.decoder_seq, l.decoder_seq / (l.seq + l.decoder_seq), l.config.num_decoder_layers};
}

LayerBuilder t5_builder(const TransformerLayout& l, const T5Stack& stack, const std::string& name) {
  LayerBuilder b(name, l.samples * stack.seq, l.precision);
  b.set_active_share(stack.share);
  b.set_fp8(l.products());
  return b;
}
Bytes encoder_output(const TransformerLayout& l) { return l.size() * (l.rows() * l.hidden()); }

void t5_norm_and_dropout(LayerBuilder& b, const TransformerLayout& l) {
  b.norm(l.config.norm, "final_norm", l.hidden());
  if (l.config.residual_dropout > 0) b.dropout({.name = "final_dropout", .width = l.hidden()});
}

/// The first block of a stack makes the bias of every pair of positions. All its blocks add it to their scores.
void add_position_bias(LayerBuilder& b, const TransformerLayout& l, const T5Stack& stack) {
  const double pairs = stack.seq * stack.seq;
  b.embedding({.name = "relative_attention_bias",
               .entries = static_cast<double>(l.config.relative_buckets),
               .width = l.heads(),
               .lookups = pairs});
  Operator bias;
  bias.saved_tensors = {{"position_bias", l.size() * (pairs * l.heads())}};
  b.add(std::move(bias));
}

void t5_self_attention(LayerBuilder& b, const TransformerLayout& l, const T5Stack& stack) {
  AttentionShape shape = self_attention_shape(l);
  shape.queries = shape.keys = stack.seq;
  shape.scaled = false;
  shape.position_bias = true;
  begin_branch(b, l, "attention", readers_of(l, LinearPart::qkv));
  begin_columns(b, l, "attention", readers_of(l, LinearPart::qkv));  // with one rank it only casts
  self_attention(b, l, shape);
  output_projection(b, l, shape);
  end_branch(b, l, "attention");
}

/// Attention with queries of the decoder's tokens, and keys and values of the encoder's.
void t5_cross_attention(LayerBuilder& b, const TransformerLayout& l, bool first, bool last) {
  AttentionShape shape = self_attention_shape(l);
  shape.prefix = "cross_";
  shape.queries = l.decoder_seq;
  shape.scaled = false;
  begin_branch(b, l, "cross_attention");
  b.linear({.name = "cross_q", .in = l.hidden(), .out = l.query()});
  b.set_rows(l.rows());
  b.set_active_share(t5_encoder(l).share);
  b.shared_input("encoder_output", l.hidden(), last ? 2 : 3);  // keys, values, and later blocks
  b.linear({.name = "cross_k", .in = l.hidden(), .out = l.key(), .keeps_input = first});
  b.linear({.name = "cross_v", .in = l.hidden(), .out = l.key(), .keeps_input = false});
  b.set_rows(l.samples * l.decoder_seq);
  b.set_active_share(t5_decoder(l).share);
  attention(b, l, shape);
  output_projection(b, l, shape);
  end_branch(b, l, "cross_attention");
}

Layer t5_block(const TransformerLayout& l, const T5Stack& stack, bool decoder, std::int64_t index) {
  const bool first = index == 0, last = index + 1 == stack.layers;
  LayerBuilder b = t5_builder(l, stack, stack.prefix + "block " + std::to_string(index));
  const bool encoder_gradient = decoder && !last;  // from the cross-attention of later blocks
  if (encoder_gradient) b.hold(encoder_output(l));
  if (first) add_position_bias(b, l, stack);
  b.hold(l.size() * (stack.seq * stack.seq * l.heads()));  // the gradient of the bias
  t5_self_attention(b, l, stack);
  if (decoder) t5_cross_attention(b, l, first, last);
  feed_forward_branch(b, l);
  b.release();
  if (encoder_gradient) b.release();
  Bytes output = b.row_bytes(l.hidden());
  if (encoder_gradient) output += encoder_output(l);
  return std::move(b).build(output, l.sharding().recompute, output);
}

/// Encoder and decoder look tokens up in one table, which the first layer owns.
Layer t5_embedding(const TransformerLayout& l, const T5Stack& stack, bool decoder) {
  LayerBuilder b = t5_builder(l, stack, decoder ? "decoder embedding" : "embedding");
  b.set_active_share(1);
  if (decoder) b.hold(encoder_output(l));
  b.embedding({.name = decoder ? "decoder_embedding" : "token_embedding",
               .entries = l.vocab(),
               .width = l.hidden(),
               .lookups = b.rows(),
               .tied = !decoder || l.config.tie_word_embeddings,
               .owned = !decoder});
  if (l.config.embedding_dropout > 0) b.dropout({.name = "embedding_dropout", .width = l.hidden()});
  if (decoder) b.release();
  Bytes output = b.row_bytes(l.hidden());
  if (decoder) output += encoder_output(l);
  return std::move(b).build(output);
}

Layer t5_head(const TransformerLayout& l, const T5Stack& stack) {
  LayerBuilder b = t5_builder(l, stack, "head");
  b.set_fp8({});
  t5_norm_and_dropout(b, l);
  const LayerBuilder::Linear projection{.name = "output", .in = l.hidden(), .out = l.vocab()};
  if (l.config.tie_word_embeddings) {
    b.mover("output_scale", b.row_bytes(l.hidden()), b.row_bytes(l.hidden()));
    b.tied_linear(projection);
  } else {
    b.linear(projection);
  }
  b.cross_entropy(l.vocab(), l.options.fused_loss);
  return std::move(b).build(Bytes{});
}

std::vector<Layer> t5_layers(const TransformerLayout& l) {
  const T5Stack encoder = t5_encoder(l), decoder = t5_decoder(l);
  std::vector<Layer> layers{t5_embedding(l, encoder, false)};
  for (std::int64_t i = 0; i < encoder.layers; ++i) layers.push_back(t5_block(l, encoder, false, i));
  LayerBuilder norm = t5_builder(l, encoder, "encoder norm");
  t5_norm_and_dropout(norm, l);
  layers.push_back(std::move(norm).build(encoder_output(l)));
  layers.push_back(t5_embedding(l, decoder, true));
  for (std::int64_t i = 0; i < decoder.layers; ++i) layers.push_back(t5_block(l, decoder, true, i));
  layers.push_back(t5_head(l, decoder));
  return layers;
}

const RegisterTransformer registered_t5{"t5", {read_t5, t5_layers}};

}  // namespace
}  // namespace trainyard::transformers
