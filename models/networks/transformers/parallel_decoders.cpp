// Decoders whose attention and feed-forward part read one norm and are added to the residual stream together: GPT-J (Wang
// & Komatsuzaki 2021), Falcon (TII 2023), Phi-2 (Microsoft 2023), Command R (Cohere 2024), and StableLM 2 12B.
#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

void feed_forward_beside(LayerBuilder& b, const TransformerLayout& l) {
  feed_forward_part(b, l, false);  // attention keeps the input
}

/// x + attention(norm(x)) + mlp(norm(x)), or with a second norm two branches one after the other, whose kernels are the
/// same.
void parallel_branches(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  if (l.config.one_norm) return attention_beside(b, l, index, feed_forward_beside);
  attention_branch(b, l, index);
  feed_forward_branch(b, l);
}

std::vector<Layer> parallel_layers(const TransformerLayout& l) { return decoder_layers(l, parallel_branches); }

/// GPT-J: no biases in attention, but in the feed-forward part and the output projection.
void read_gptj(Fields& f, TransformerConfig& c) {
  read_gpt2_keys(f, c, 0);
  c.position_embedding = PositionEmbedding::rotary;
  c.mlp_bias = c.head_bias = c.one_norm = true;
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", false);
}

/// Falcon: one norm in the 7B network; two in those of the new architecture (40B, 180B) unless they state one.
void read_falcon(Fields& f, TransformerConfig& c) {
  c.vocab_size = read_size(f, "vocab_size");
  c.num_hidden_layers = read_layers(f, {"num_hidden_layers", "n_layer"});
  c.hidden_size = read_size(f, "hidden_size");
  c.num_attention_heads = read_size(f, {"num_attention_heads", "n_head"});
  const bool is_new = f.boolean("new_decoder_architecture", false);
  const bool shares_keys = f.boolean("multi_query", true);
  const std::int64_t groups =
      read_size(f, "num_kv_heads", read_size(f, "n_head_kv", c.num_attention_heads));  // only the new networks have it
  c.num_key_value_heads = is_new ? groups : shares_keys ? 1 : c.num_attention_heads;
  const bool is_parallel = f.boolean("parallel_attn", true);
  const std::int64_t norms = read_size(f, "num_ln_in_parallel_attn", is_new ? 2 : 1);
  if (norms > 2) f.refuse("num_ln_in_parallel_attn", "expected 1 or 2");
  c.one_norm = is_new ? norms == 1 : is_parallel;
  c.intermediate_size = read_size(f, "ffn_hidden_size", 4 * c.hidden_size);
  c.max_position_embeddings = read_size(f, "max_position_embeddings", 2048);
  c.activation = read_activation(f, "activation", "gelu");
  c.position_embedding = f.boolean("alibi", false) ? PositionEmbedding::none : PositionEmbedding::rotary;
  c.fused_qkv = true;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = f.boolean("bias", false);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.attention_dropout = read_probability(f, "attention_dropout", 0);
  c.residual_dropout = read_probability(f, "hidden_dropout", 0);
  finish_heads(f, c);
}

/// Phi-1, 1.5 and 2: biases in every linear layer and in the output projection.
void read_phi(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.norm = Norm::layer_norm;
  c.gated_mlp = false;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = c.head_bias = c.one_norm = true;
  c.embedding_dropout = read_probability(f, "embd_pdrop", 0);
  c.residual_dropout = read_probability(f, "resid_pdrop", 0);
  refuse_true(f, "qk_layernorm", "a norm of each head with biases is");
}

/// Command R. Its LayerNorm has no bias. It is modelled as RMSNorm, which has the same weight, and lacks 4 bytes a row.
void read_cohere(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.one_norm = true;
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  if (f.boolean("use_qk_norm", false)) c.head_norms = HeadNorms::all;  // a weight for each channel of each head
}

/// Command R7B and A: a window in three of four layers.
void read_cohere2(Fields& f, TransformerConfig& c) {
  read_cohere(f, c);
  c.sliding_window = read_size(f, "sliding_window", 4096);
  const std::int64_t every = read_size(f, "sliding_window_pattern", read_size(f, "_sliding_window_pattern", 4));
  c.full_attention_every = read_layer_types(f, c.num_hidden_layers, every);
}

void read_stablelm(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.norm = Norm::layer_norm;
  c.qkv_bias = f.boolean("use_qkv_bias", false);
  c.residual_dropout = read_probability(f, "hidden_dropout", 0);
  // A weight for each channel of each head. A bias, which StableLM has not, is modelled too.
  if (f.boolean("qk_layernorm", false)) c.head_norms = HeadNorms::all;
  c.one_norm = f.boolean("use_parallel_residual", false);
}

const RegisterTransformer registered_gptj{"gptj", {read_gptj, parallel_layers}};
const RegisterTransformer registered_falcon{"falcon", {read_falcon, parallel_layers}};
const RegisterTransformer registered_phi{"phi", {read_phi, parallel_layers}};
const RegisterTransformer registered_cohere{"cohere", {read_cohere, parallel_layers}};
const RegisterTransformer registered_cohere2{"cohere2", {read_cohere2, parallel_layers}};
const RegisterTransformer registered_stablelm{"stablelm", {read_stablelm, parallel_layers}};

}  // namespace
}  // namespace trainyard::transformers
