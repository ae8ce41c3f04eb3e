// Llama (Touvron et al. 2023) and similar dense networks: rotary positions, RMSNorm, gated feed-forward part.
#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

void read_mistral(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.sliding_window = read_size(f, "sliding_window", 0);
}

void read_qwen2(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = true;
  refuse_partial_window(f);
}

void read_qwen3(Fields& f, TransformerConfig& c) {
  c.head_dim = 128;  // default of transformers.Qwen3Config, independent of the hidden size
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.head_norms = HeadNorms::one_a_head;
  refuse_partial_window(f);
}

/// Phi-3 and Phi-4 (Abdin et al. 2024): Llama with its projections fused.
void read_phi3(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.fused_qkv = true;
  c.sliding_window = read_size(f, "sliding_window", 0);
  c.embedding_dropout = read_probability(f, "embd_pdrop", 0);
  c.residual_dropout = read_probability(f, "resid_pdrop", 0);
  refuse_true(f, "attention_bias", "biases of Phi's attention are");
}

/// OLMo 2 (Team OLMo 2024): norms of the outputs of branches, and of all queries and keys.
void read_olmo2(Fields& f, TransformerConfig& c) {
  read_with_biases(f, c);
  c.norm_place = NormPlace::output;
  c.head_norms = HeadNorms::all;
}

/// Nemotron-4 (Parmar et al. 2024): LayerNorm, squared ReLU without a gate.
void read_nemotron(Fields& f, TransformerConfig& c) {
  read_with_biases(f, c);
  c.gated_mlp = false;
  c.norm = Norm::layer_norm;
}

const RegisterTransformer registered_phi3{"phi3", {read_phi3, decoder_layers}};
const RegisterTransformer registered_olmo2{"olmo2", {read_olmo2, decoder_layers}};
const RegisterTransformer registered_nemotron{"nemotron", {read_nemotron, decoder_layers}};
const RegisterTransformer registered_llama{"llama", {read_with_biases, decoder_layers}};
const RegisterTransformer registered_mistral{"mistral", {read_mistral, decoder_layers}};
const RegisterTransformer registered_qwen2{"qwen2", {read_qwen2, decoder_layers}};
const RegisterTransformer registered_qwen3{"qwen3", {read_qwen3, decoder_layers}};

/// Reads a size that is required if `fallback` is 0.
std::int64_t read_required(Fields& f, const char* key, std::int64_t fallback) {
  return fallback > 0 ? read_size(f, key, fallback) : read_size(f, key);
}

}  // namespace

void read_llama_keys(Fields& f, TransformerConfig& c) {
  c.vocab_size = read_required(f, "vocab_size", c.vocab_size);
  c.num_hidden_layers = read_layers(f, {"num_hidden_layers"});
  c.hidden_size = read_size(f, "hidden_size");
  c.num_attention_heads = read_required(f, "num_attention_heads", c.num_attention_heads);
  c.num_key_value_heads =
      read_size(f, "num_key_value_heads", c.num_key_value_heads > 0 ? c.num_key_value_heads : c.num_attention_heads);
  c.head_dim = read_size(f, "head_dim", c.head_dim);
  c.intermediate_size = read_required(f, "intermediate_size", c.intermediate_size);
  c.max_position_embeddings = read_required(f, "max_position_embeddings", c.max_position_embeddings);
  c.activation = read_activation(f, "hidden_act", "silu");
  c.position_embedding = PositionEmbedding::rotary;
  c.norm = Norm::rms_norm;
  c.gated_mlp = true;
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", false);
  c.attention_dropout = read_probability(f, "attention_dropout", 0);
  finish_heads(f, c);
}

void read_with_biases(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.mlp_bias = f.boolean("mlp_bias", false);
}

void refuse_partial_window(Fields& f) {
  refuse_true(f, "use_sliding_window", "a sliding window in some layers only is");
}

}  // namespace trainyard::transformers
