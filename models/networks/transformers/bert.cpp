// BERT (Devlin et al. 2019): an encoder with norms after the residual sums.
#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// Reads the class in Hugging Face's library: the first of `architectures`.
EncoderHead read_bert_head(Fields& f) {
  const Node* names = f.child("architectures");
  if (!names || names->items.empty()) return EncoderHead::masked_lm;
  const Node& name = names->items.front();
  if (name.scalar == "BertForMaskedLM") return EncoderHead::masked_lm;
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
  c.num_attention_heads = read_size(f, "num_attention_heads");
  c.num_key_value_heads = c.num_attention_heads;
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
  ignore_keys(f, {"classifier_dropout", "directionality", "layer_norm_eps", "pooler_fc_size",
                  "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
  finish_heads(f, c);
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
  std::vector<Layer> layers{bert_embedding(l)};
  for (std::int64_t i = 0; i < l.config.num_hidden_layers; ++i) layers.push_back(dense_block(l, i));
  layers.push_back(bert_head(l));
  return layers;
}

const RegisterTransformer registered_bert{"bert", {read_bert, bert_layers}};

}  // namespace
}  // namespace trainyard::transformers
