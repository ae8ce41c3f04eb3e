// BERT (Devlin et al. 2019): an encoder with norms after the residual sums; RoBERTa (Liu et al. 2019) has its layers.
// Vision transformer (Dosovitskiy et al. 2021), with its classifier (Hugging Face's ViTForImageClassification).
// T5 (Raffel et al. 2020): encoder and decoder with a learned bias of relative positions.

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// Reads the class in Hugging Face's library: the first of `architectures`.
EncoderHead read_bert_head(Fields& f) {
  const Node* names = f.child("architectures");
  if (!names || names->items.empty()) return EncoderHead::masked_lm;
  const Node& name = names->items.front();
  for (const char* masked : {"BertForMaskedLM", "RobertaForMaskedLM", "XLMRobertaForMaskedLM", "CamembertForMaskedLM"})
    if (name.scalar == masked) return EncoderHead::masked_lm;
  if (name.scalar == "BertForPreTraining") return EncoderHead::pre_training;
  if (name.scalar == "BertModel") return EncoderHead::pooler;
  fail(name.place, f.what() + ".architectures: \"" + name.scalar + "\" is not modelled" +
                       hint(name.scalar, {"BertForMaskedLM", "BertForPreTraining", "BertModel"}));
}

/// Defaults are those of transformers.BertConfig.
void read_bert(Fields& f, TransformerConfig& c) {
  c.encoder_head = read_bert_head(f);
  c.vocab_size = read_size(f, "vocab_size");
  c.num_hidden_layers = read_layers(f, {"num_hidden_layers"});
  c.hidden_size = read_size(f, "hidden_size");
  c.num_attention_heads = c.num_key_value_heads = read_size(f, "num_attention_heads");
  c.intermediate_size = read_size(f, "intermediate_size");
  c.max_position_embeddings = read_size(f, "max_position_embeddings");
  c.type_vocab_size = read_size(f, "type_vocab_size", 2);
  if (f.has("max_predictions_per_seq")) c.predictions = read_size(f, "max_predictions_per_seq");
  if (c.predictions > c.max_position_embeddings) f.refuse("max_predictions_per_seq", "more than there are positions");
  c.activation = read_activation(f, "hidden_act", "gelu");
  c.causal = false;
  c.norm_place = NormPlace::after;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true) && c.encoder_head != EncoderHead::pooler;
  c.embedding_dropout = c.residual_dropout = read_probability(f, "hidden_dropout_prob", 0.1);
  c.attention_dropout = read_probability(f, "attention_probs_dropout_prob", 0.1);
  f.choice("position_embedding_type", {"absolute"}, "absolute");
  for (const char* key : {"is_decoder", "add_cross_attention", "gradient_checkpointing"}) refuse_true(f, key, "it is");
  finish_heads(f, c);
}

/// Two entries of RoBERTa's table of positions are for padding, and are left out.
void read_roberta(Fields& f, TransformerConfig& c) {
  read_bert(f, c);
  if (c.max_position_embeddings < 3) f.refuse("max_position_embeddings", "expected at least 3, 2 of them for padding");
  c.max_position_embeddings -= 2;
}

Layer bert_embedding(const TransformerLayout& l) {
  LayerBuilder b = l.builder("embedding");
  const double positions = static_cast<double>(l.config.max_position_embeddings);
  const double types = static_cast<double>(l.config.type_vocab_size);
  token_embedding(b, l);
  b.embedding({.name = "type_embedding", .entries = types, .width = l.hidden(), .lookups = l.rows()});
  b.embedding({.name = "position_embedding", .entries = positions, .width = l.hidden(), .lookups = l.seq});
  add_positions(b, l, "embedding_sum", l.size() * (l.seq * l.hidden()), 3);
  b.norm(l.config.norm, "embedding_norm", l.hidden());
  if (l.config.embedding_dropout > 0) b.dropout({.name = "embedding_dropout", .width = l.hidden()});
  const Bytes output = b.row_bytes(l.hidden());
  return std::move(b).build(output);
}

/// Computes the logits of every token, masked or not, as Hugging Face does; with `predictions` only those of the
/// predicted tokens.
void masked_language_model(LayerBuilder& b, const TransformerLayout& l) {
  const double rows = b.rows();
  if (l.config.predictions > 0)  // other tokens have no loss
    select_rows(b, l, "predicted_tokens", l.samples * static_cast<double>(l.config.predictions));
  b.linear({.name = "transform", .in = l.hidden(), .out = l.hidden(), .bias = true});
  activation(b, l.precision, "transform_" + l.config.activation, l.hidden());
  b.norm(l.config.norm, "transform_norm", l.hidden());
  vocabulary_loss(b, l, true);
  b.set_rows(rows);
}

void bert_pooler(LayerBuilder& b, const TransformerLayout& l) {
  select_rows(b, l, "first_token", l.samples);
  b.linear({.name = "pooler", .in = l.hidden(), .out = l.hidden(), .bias = true});
  activation(b, l.precision, "tanh", l.hidden());
}

Layer bert_head(const TransformerLayout& l) {
  LayerBuilder b = l.builder("head");
  const EncoderHead head = l.config.encoder_head;
  if (head == EncoderHead::pre_training) b.shared_input("head", l.hidden(), 2);
  if (head != EncoderHead::pooler) masked_language_model(b, l);
  if (head != EncoderHead::masked_lm) bert_pooler(b, l);
  if (head == EncoderHead::pre_training) {
    b.linear({.name = "next_sentence", .in = l.hidden(), .out = 2, .bias = true});
    b.cross_entropy(2, l.options.fused_loss);
  }
  return std::move(b).build(Bytes{});
}

std::vector<Layer> bert_layers(const TransformerLayout& l) {
  return layers_between(bert_embedding(l), l, bert_head(l));
}

const RegisterTransformer registered_bert{"bert", {read_bert, bert_layers}};
const RegisterTransformer registered_roberta{"roberta", {read_roberta, bert_layers}};
const RegisterTransformer registered_xlm_roberta{"xlm-roberta", {read_roberta, bert_layers}};
const RegisterTransformer registered_camembert{"camembert", {read_roberta, bert_layers}};

/// Defaults are those of transformers.ViTConfig.
void read_vit(Fields& f, TransformerConfig& c) {
  c.num_hidden_layers = read_layers(f, {"num_hidden_layers"});
  c.hidden_size = read_size(f, "hidden_size");
  c.num_attention_heads = c.num_key_value_heads = read_size(f, "num_attention_heads");
  c.intermediate_size = read_size(f, "intermediate_size");
  const std::int64_t image = read_size(f, "image_size", 224);
  c.patch_size = read_size(f, "patch_size", 16);
  c.num_channels = read_size(f, "num_channels", 3);
  if (image < c.patch_size || image > 65536)
    f.refuse("image_size",
             std::to_string(image) + "; expected from " + std::to_string(c.patch_size) + " (a patch) to 65536");
  const std::int64_t side = image / c.patch_size;  // pixels left over at the edge are ignored
  c.max_position_embeddings = side * side + 1;
  c.fixed_seq_length = true;
  const Node* labels = f.child("id2label");
  c.num_labels = read_size(f, "num_labels",
                           labels && !labels->fields.empty() ? static_cast<std::int64_t>(labels->fields.size()) : 2);
  c.activation = read_activation(f, "hidden_act", "gelu");
  c.causal = false;
  c.qkv_bias = f.boolean("qkv_bias", true);
  c.attention_output_bias = c.mlp_bias = true;
  c.embedding_dropout = c.residual_dropout = read_probability(f, "hidden_dropout_prob", 0);
  c.attention_dropout = read_probability(f, "attention_probs_dropout_prob", 0);
  finish_heads(f, c);
}

/// Patches do not overlap, so their convolution is a linear layer of pixels. The class token goes before them.
Layer vit_embedding(const TransformerLayout& l) {
  LayerBuilder b = l.builder("embedding");
  const double pixels = static_cast<double>(l.config.patch_size * l.config.patch_size * l.config.num_channels);
  b.set_rows(l.samples * (l.seq - 1));
  const Bytes patches = b.row_bytes(l.hidden());
  b.linear({.name = "patch_embedding", .in = pixels, .out = l.hidden(), .bias = true, .input_gradient = false});
  b.set_rows(l.rows());
  const Bytes tensor = b.row_bytes(l.hidden()), token = l.size() * l.hidden(), positions = token * l.seq;
  const int class_token = b.parameter("class_token", l.hidden());
  Operator concat;
  concat.forward.push_back(elementwise("class_token", patches + token + tensor, l.precision));
  concat.backward = {{elementwise("class_token.patch_grad", patches * 2, l.precision), {}},
                     {elementwise("class_token.backward", token * (l.samples + 1), l.precision), {class_token}}};
  concat.forward_live = patches + tensor;
  concat.backward_live = patches + tensor;
  b.add(std::move(concat));
  const int position = b.parameter("position_embedding", l.seq * l.hidden());
  Operator add;
  add.forward.push_back(elementwise("position_embedding", tensor * 2 + positions, l.precision));
  add.backward.push_back({elementwise("position_embedding.backward", tensor + positions, l.precision), {position}});
  add.forward_live = tensor * 2;
  add.backward_live = tensor;
  b.add(std::move(add));
  if (l.config.embedding_dropout > 0) b.dropout({.name = "embedding_dropout", .width = l.hidden()});
  return std::move(b).build(tensor);
}

Layer vit_head(const TransformerLayout& l) {
  LayerBuilder b = l.builder("head");
  const double labels = static_cast<double>(l.config.num_labels);
  b.norm(l.config.norm, "final_norm", l.hidden());
  select_rows(b, l, "first_token", l.samples);
  b.linear({.name = "classifier", .in = l.hidden(), .out = labels, .bias = true});
  b.cross_entropy(labels, l.options.fused_loss);
  return std::move(b).build(Bytes{});
}

std::vector<Layer> vit_layers(const TransformerLayout& l) { return layers_between(vit_embedding(l), l, vit_head(l)); }

const RegisterTransformer registered_vit{"vit", {read_vit, vit_layers}};

/// Reads T5's name of the feed-forward part: an activation, or "gated-" and an activation.
void read_t5_activation(Fields& f, TransformerConfig& c) {
  std::string name =
      f.choice("feed_forward_proj",
               {"relu", "gelu", "gelu_new", "silu", "gated-relu", "gated-gelu", "gated-gelu_new", "gated-silu"},
               c.model_type == "mt5" ? "gated-gelu" : "relu");
  c.gated_mlp = name.starts_with("gated-");
  c.activation = c.gated_mlp ? name.substr(6) : name;
}

/// Defaults are those of transformers.T5Config, and of MT5Config (Xue et al. 2021).
void read_t5(Fields& f, TransformerConfig& c) {
  c.vocab_size = read_size(f, "vocab_size");
  c.hidden_size = read_size(f, "d_model");
  c.num_hidden_layers = read_layers(f, {"num_layers"});
  c.num_decoder_layers = f.has("num_decoder_layers") ? read_layers(f, {"num_decoder_layers"}) : c.num_hidden_layers;
  c.num_attention_heads = c.num_key_value_heads = read_size(f, "num_heads");
  c.head_dim = read_size(f, "d_kv");
  c.intermediate_size = read_size(f, "d_ff");
  c.max_position_embeddings =
      read_size(f, "n_positions", 512);  // length in pre-training; there is no table of positions
  c.relative_buckets = read_size(f, "relative_attention_num_buckets", 32);
  c.position_embedding = PositionEmbedding::relative;
  c.causal = false;  // the decoder's mask is part of the bias
  c.norm = Norm::rms_norm;
  read_t5_activation(f, c);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", c.model_type != "mt5");
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = c.activation_dropout =
      read_probability(f, "dropout_rate", 0.1);
  if (!f.boolean("is_encoder_decoder", true))
    f.refuse("is_encoder_decoder", "T5's encoder without its decoder is not modelled");
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
const RegisterTransformer registered_mt5{"mt5", {read_t5, t5_layers}};

}  // namespace

}  // namespace trainyard::transformers
