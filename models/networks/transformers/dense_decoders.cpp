// Dense decoders that differ from Llama, GPT-2 or Gemma by a few keys: Granite, SmolLM 3, ERNIE 4.5, Seed-OSS, Hunyuan,
// EXAONE 4, OLMo 3, GLM-4, Arcee, Gemma, StarCoder 2, InternLM 2, Baichuan 2, GPT-NeoX,
// OPT, BLOOM.
// Gemma 2 and 3 (Gemma Team 2024, 2025): norms before and after each branch, windows in most layers. Arithmetic that
// needs no further reads or writes (soft caps of scores and logits, the embedding's scale) is left out.
// GPT-2 (Radford et al. 2019), and GPT-3 (Brown et al. 2020) with dense attention in every layer.

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// Reads windows in all but every N-th layer.
void read_windows(Fields& f, TransformerConfig& c, std::int64_t every) {
  c.sliding_window = read_size(f, "sliding_window", 0);
  const std::int64_t full = read_layer_types(f, c.num_hidden_layers, every);
  if (c.sliding_window > 0) c.full_attention_every = full;
}

void read_smollm3(Fields& f, TransformerConfig& c) {
  read_with_biases(f, c);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  refuse_partial_window(f);
}

void read_ernie(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = f.boolean("use_bias", false);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
}

void read_seed_oss(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = f.boolean("attention_bias", true);
  c.attention_output_bias = f.boolean("attention_out_bias", false);
  c.mlp_bias = f.boolean("mlp_bias", false);
  c.residual_dropout = read_probability(f, "residual_dropout", 0);
}

void read_hunyuan(Fields& f, TransformerConfig& c) {
  read_with_biases(f, c);
  c.head_norms = HeadNorms::one_a_head;
}

void read_exaone4(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.norm_place = NormPlace::output;
  c.head_norms = HeadNorms::one_a_head;
  read_windows(f, c, 4);
}

void read_olmo3(Fields& f, TransformerConfig& c) {
  read_with_biases(f, c);
  c.norm_place = NormPlace::output;
  c.head_norms = HeadNorms::all;
  read_windows(f, c, 4);
}

void read_glm(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = f.boolean("attention_bias", false);
}

void read_glm4(Fields& f, TransformerConfig& c) {
  read_glm(f, c);
  c.norm_place = NormPlace::both;
}

void read_arcee(Fields& f, TransformerConfig& c) {
  c.activation = "relu2";
  read_with_biases(f, c);
  c.gated_mlp = false;
}

void read_gemma1(Fields& f, TransformerConfig& c) {
  c.head_dim = 256;
  read_llama_keys(f, c);
  c.activation = read_activation(f, "hidden_activation", "gelu_pytorch_tanh");
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
}

void read_starcoder2(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.norm = Norm::layer_norm;
  c.gated_mlp = false;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = f.boolean("use_bias", true);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.embedding_dropout = read_probability(f, "embedding_dropout", 0);
  c.residual_dropout = read_probability(f, "residual_dropout", 0);
  c.sliding_window = read_size(f, "sliding_window", 0);
}

/// InternLM 2 (2024): Llama with one weight for query, key and value.
void read_internlm2(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.fused_qkv = true;
  c.qkv_bias = c.attention_output_bias = f.boolean("bias", false);
}

/// Baichuan 2 7B (2023): Llama with one weight for query, key and value.
void read_baichuan(Fields& f, TransformerConfig& c) {
  c.max_position_embeddings = read_size(f, "model_max_length", 4096);
  read_llama_keys(f, c);
  c.fused_qkv = true;
}

/// Reads what GPT-NeoX, OPT and BLOOM have in common: LayerNorm, a bias in every linear layer, no gate.
void read_biased_decoder(Fields& f, TransformerConfig& c, std::initializer_list<const char*> layers,
                         std::initializer_list<const char*> heads) {
  c.vocab_size = read_size(f, "vocab_size");
  c.num_hidden_layers = read_layers(f, layers);
  c.num_attention_heads = c.num_key_value_heads = read_size(f, heads);
  c.norm = Norm::layer_norm;
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
}

/// Both branches of GPT-NeoX's block read the same residual (use_parallel_residual), each with its own norm. The kernels
/// are the same as if one branch followed the other.
void read_gpt_neox(Fields& f, TransformerConfig& c) {
  read_biased_decoder(f, c, {"num_hidden_layers"}, {"num_attention_heads"});
  c.hidden_size = read_size(f, "hidden_size");
  c.intermediate_size = read_size(f, "intermediate_size");
  c.max_position_embeddings = read_size(f, "max_position_embeddings");
  c.activation = read_activation(f, "hidden_act", "gelu");
  c.position_embedding = PositionEmbedding::rotary;
  c.fused_qkv = true;
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", false);
  c.attention_dropout = read_probability(f, "attention_dropout", 0);
  c.residual_dropout = read_probability(f, "hidden_dropout", 0);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", true);
  finish_heads(f, c);
}

/// Two entries of OPT's table of positions are for padding, and are left out.
void read_opt(Fields& f, TransformerConfig& c) {
  read_biased_decoder(f, c, {"num_hidden_layers"}, {"num_attention_heads"});
  c.hidden_size = read_size(f, "hidden_size");
  if (read_size(f, "word_embed_proj_dim", c.hidden_size) != c.hidden_size)
    fail(f.place_of("word_embed_proj_dim"),
         f.what() + ": embeddings of another width are not modelled; expected hidden_size");
  if (!f.boolean("do_layer_norm_before", true)) c.norm_place = NormPlace::after;  // then OPT has no final norm
  refuse_true(f, "_remove_final_layer_norm", "a head without a norm is");
  if (!f.boolean("layer_norm_elementwise_affine", true))
    f.refuse("layer_norm_elementwise_affine", "norms without weights are not modelled; expected true");
  if (!f.boolean("enable_bias", true)) c.qkv_bias = c.attention_output_bias = c.mlp_bias = false;
  c.intermediate_size = read_size(f, "ffn_dim", 4 * c.hidden_size);
  c.max_position_embeddings = read_size(f, "max_position_embeddings", 2048);
  c.activation = read_activation(f, "activation_function", "relu");
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.attention_dropout = read_probability(f, "attention_dropout", 0);
  c.residual_dropout = read_probability(f, "dropout", 0.1);
  finish_heads(f, c);
}

/// BLOOM's positions are slopes of the scores (ALiBi), which the kernel of attention computes.
void read_bloom(Fields& f, TransformerConfig& c) {
  read_biased_decoder(f, c, {"n_layer", "num_hidden_layers"}, {"n_head", "num_attention_heads"});
  c.hidden_size = read_size(f, {"hidden_size", "n_embed"});
  c.intermediate_size = 4 * c.hidden_size;
  c.max_position_embeddings = read_size(f, "seq_length", 2048);
  c.activation = "gelu";
  c.position_embedding = PositionEmbedding::none;
  c.embedding_norm = c.fused_qkv = true;
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.attention_dropout = read_probability(f, "attention_dropout", 0);
  c.residual_dropout = read_probability(f, "hidden_dropout", 0);
  finish_heads(f, c, f.has("n_head") ? "n_head" : "num_attention_heads");
}

const RegisterTransformer registered_granite{"granite", {read_with_biases, decoder_layers}};
const RegisterTransformer registered_smollm3{"smollm3", {read_smollm3, decoder_layers}};
const RegisterTransformer registered_ernie{"ernie4_5", {read_ernie, decoder_layers}};
const RegisterTransformer registered_seed_oss{"seed_oss", {read_seed_oss, decoder_layers}};
const RegisterTransformer registered_hunyuan{"hunyuan_v1_dense", {read_hunyuan, decoder_layers}};
const RegisterTransformer registered_exaone4{"exaone4", {read_exaone4, decoder_layers}};
const RegisterTransformer registered_olmo3{"olmo3", {read_olmo3, decoder_layers}};
const RegisterTransformer registered_glm{"glm", {read_glm, decoder_layers}};
const RegisterTransformer registered_glm4{"glm4", {read_glm4, decoder_layers}};
const RegisterTransformer registered_arcee{"arcee", {read_arcee, decoder_layers}};
const RegisterTransformer registered_gemma{"gemma", {read_gemma1, decoder_layers}};
const RegisterTransformer registered_starcoder2{"starcoder2", {read_starcoder2, decoder_layers}};
const RegisterTransformer registered_internlm2{"internlm2", {read_internlm2, decoder_layers}};
const RegisterTransformer registered_baichuan{"baichuan", {read_baichuan, decoder_layers}};
const RegisterTransformer registered_gpt_neox{"gpt_neox", {read_gpt_neox, decoder_layers}};
const RegisterTransformer registered_opt{"opt", {read_opt, decoder_layers}};
const RegisterTransformer registered_bloom{"bloom", {read_bloom, decoder_layers}};

void read_gemma(Fields& f, TransformerConfig& c) {
  c.head_dim = 256;
  read_llama_keys(f, c);
  c.activation = read_activation(f, "hidden_activation", "gelu_pytorch_tanh");
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.norm_place = NormPlace::both;
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
}

void read_gemma2(Fields& f, TransformerConfig& c) {
  read_gemma(f, c);
  c.sliding_window = f.has("sliding_window_size") ? read_size(f, {"sliding_window", "sliding_window_size"})
                                                  : read_size(f, "sliding_window", 4096);
  c.full_attention_every = read_layer_types(f, c.num_hidden_layers, 2);
}

/// The text part of Gemma 3 with images leaves out keys that have transformers.Gemma3TextConfig's defaults.
void read_gemma3(Fields& f, TransformerConfig& c) {
  c.vocab_size = 262208;
  c.num_attention_heads = 8;
  c.num_key_value_heads = 4;
  c.max_position_embeddings = 131072;
  read_gemma(f, c);
  c.head_norms = HeadNorms::one_a_head;
  c.sliding_window = read_size(f, "sliding_window", 4096);
  const std::int64_t pattern = read_size(f, "sliding_window_pattern", read_size(f, "_sliding_window_pattern", 6));
  c.full_attention_every = read_layer_types(f, c.num_hidden_layers, pattern);
}

const RegisterTransformer registered_gemma2{"gemma2", {read_gemma2, decoder_layers}};
const RegisterTransformer registered_gemma3{"gemma3_text", {read_gemma3, decoder_layers}};

/// Defaults are those of transformers.GPT2Config.
void read_gpt2(Fields& f, TransformerConfig& c) {
  read_gpt2_keys(f, c, 0.1);
  c.fused_qkv = c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  refuse_true(f, "add_cross_attention", "cross-attention is");
}

const RegisterTransformer registered_gpt2{"gpt2", {read_gpt2, decoder_layers}};

}  // namespace

void read_gpt2_keys(Fields& f, TransformerConfig& c, double dropout) {
  c.vocab_size = read_size(f, "vocab_size");
  c.num_hidden_layers = read_layers(f, {"n_layer", "num_hidden_layers"});
  c.hidden_size = read_size(f, {"n_embd", "hidden_size"});
  c.num_attention_heads = c.num_key_value_heads = read_size(f, {"n_head", "num_attention_heads"});
  c.max_position_embeddings = read_size(f, {"n_positions", "n_ctx", "max_position_embeddings"});
  c.intermediate_size = read_size(f, "n_inner", 4 * c.hidden_size);
  c.activation = read_activation(f, "activation_function", "gelu_new");
  c.embedding_dropout = read_probability(f, "embd_pdrop", dropout);
  c.attention_dropout = read_probability(f, "attn_pdrop", dropout);
  c.residual_dropout = read_probability(f, "resid_pdrop", dropout);
  finish_heads(f, c, f.has("n_head") ? "n_head" : "num_attention_heads");
}

}  // namespace trainyard::transformers
