// Mixtures of experts with Llama's attention and different kinds of layers: Llama 4 (Meta 2025), gpt-oss (OpenAI 2025),
// GLM-4.5 (Zhipu 2025), dots.llm1, ERNIE 4.5, MiniMax-M2, OLMoE, DeepSeekMoE (DeepSeek-AI 2024), Phi-3.5-MoE (Microsoft
// 2024).
#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// Every N-th layer has routed experts and a shared one. Three of four layers have attention in chunks.
void read_llama4(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.experts.count = read_size(f, "num_local_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = c.experts.shared_intermediate_size = c.intermediate_size;
  c.experts.dense_intermediate_size = read_size(f, "intermediate_size_mlp");
  c.experts.layer_interval = read_size(f, "interleave_moe_layer_step", 1);
  check_experts(f, c);
  c.sliding_window = read_size(f, "attention_chunk_size", 0);
  c.chunked_attention = c.sliding_window > 0;
  c.full_attention_every = read_layer_types(f, c.num_hidden_layers, 4);
  // Norms of queries and keys have no weight. They are left out.
  ignore_keys(f, {"attn_scale", "attn_temperature_tuning", "cache_implementation", "floor_scale", "for_llm_compressor",
                  "moe_layers", "no_rope_layer_interval", "no_rope_layers", "output_router_logits",
                  "router_aux_loss_coef", "router_jitter_noise", "use_qk_norm"});
}

void read_gpt_oss(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", true);
  c.mlp_bias = c.experts.router_bias = c.attention_sinks = true;
  c.experts.count = read_size(f, "num_local_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok", read_size(f, "experts_per_token", 4));
  c.experts.intermediate_size = c.intermediate_size;
  check_experts(f, c);
  c.scaled_rotary = true;
  c.activation_limit = f.number("swiglu_limit", 0, 1e9, 7);
  c.sliding_window = read_size(f, "sliding_window", 128);
  c.full_attention_every = read_layer_types(f, c.num_hidden_layers, 2);
  ignore_keys(f, {"experts_per_token", "initial_context_length", "output_router_logits", "quantization_config",
                  "router_aux_loss_coef"});
}

/// Reads groups of experts with a correction bias, after dense layers.
void read_grouped_experts(Fields& f, TransformerConfig& c) {
  read_routed_experts(f, c);
  c.experts.correction_bias = true;
  read_expert_groups(f, c);
  ignore_keys(f, {"norm_topk_prob", "num_nextn_predict_layers", "partial_rotary_factor", "routed_scaling_factor"});
}

/// dots.llm1 (rednote 2025).
void read_dots1(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = f.boolean("attention_bias", false);
  c.head_norms = HeadNorms::one_a_head;
  refuse_partial_window(f);
  read_grouped_experts(f, c);
  ignore_keys(f, {"moe_layer_freq", "scoring_func", "topk_method"});
}

/// ERNIE 4.5 (Baidu 2025) with experts of text alone.
void read_ernie_moe(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = c.mlp_bias = f.boolean("use_bias", false);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.experts.count = read_size(f, "moe_num_experts");
  c.experts.per_token = read_size(f, "moe_k");
  c.experts.intermediate_size = read_size(f, "moe_intermediate_size");
  c.experts.shared_intermediate_size = f.integer("moe_num_shared_experts", 0, 0) * c.experts.intermediate_size;
  c.experts.first_layer = f.integer("moe_layer_start_index", 0, 1);
  c.experts.correction_bias = f.boolean("moe_use_aux_free", true);
  if (read_size(f, "moe_layer_interval", 1) != 1)
    f.refuse("moe_layer_interval", "experts in only some of the later layers are not modelled; expected 1");
  ignore_keys(f, {"moe_capacity", "moe_gate", "moe_gate_act", "moe_layer_end_index", "moe_norm_min",
                  "output_router_logits", "router_aux_loss_coef"});
}

/// MiniMax-M2 (2025).
void read_minimax_m2(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  if (f.boolean("use_qk_norm", true)) c.head_norms = HeadNorms::all;
  c.experts.count = read_size(f, "num_local_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = c.intermediate_size;
  c.experts.correction_bias = f.boolean("use_routing_bias", true);
  check_experts(f, c);
  ignore_keys(f, {"attn_type_list", "mtp_transformer_layers", "num_mtp_modules", "output_router_logits", "qk_norm_type",
                  "quantization_config", "rotary_dim", "router_aux_loss_coef", "router_jitter_noise", "scoring_func",
                  "shared_intermediate_size", "shared_moe_mode", "use_mtp"});
}

/// OLMoE (Allen Institute for AI 2024).
void read_olmoe(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.head_norms = HeadNorms::all;
  c.experts.count = read_size(f, "num_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = c.intermediate_size;
  check_experts(f, c);
  ignore_keys(f, {"clip_qkv", "norm_topk_prob", "output_router_logits", "router_aux_loss_coef"});
}

/// DeepSeekMoE 16B: attention as in Llama, not through a latent.
void read_deepseek_moe(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  read_routed_experts(f, c);
  if (read_size(f, "moe_layer_freq", 1) != 1)
    f.refuse("moe_layer_freq", "experts in some layers only are not modelled; expected 1");
  ignore_keys(f, {"aux_loss_alpha", "norm_topk_prob", "scoring_func", "seq_aux"});
}

/// Phi-3.5-MoE: LayerNorm, and biases of attention and of the output projection.
void read_phimoe(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.norm = Norm::layer_norm;
  c.sliding_window = read_size(f, "sliding_window", 0);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.head_bias = f.boolean("lm_head_bias", false);
  c.residual_dropout = read_probability(f, "hidden_dropout", 0);
  c.experts.count = read_size(f, "num_local_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = c.intermediate_size;
  check_experts(f, c);
  ignore_keys(f, {"input_jitter_noise", "original_max_position_embeddings", "output_router_logits",
                  "router_aux_loss_coef", "router_jitter_noise"});
}

void read_glm4_moe(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = f.boolean("attention_bias", false);
  if (f.boolean("use_qk_norm", false)) c.head_norms = HeadNorms::one_a_head;
  read_grouped_experts(f, c);
  read_further_tokens(f, c);
}

const RegisterTransformer registered_llama4{"llama4_text", {read_llama4, expert_decoder_layers}};
const RegisterTransformer registered_gpt_oss{"gpt_oss", {read_gpt_oss, expert_decoder_layers}};
const RegisterTransformer registered_dots1{"dots1", {read_dots1, expert_decoder_layers}};
const RegisterTransformer registered_ernie_moe{"ernie4_5_moe", {read_ernie_moe, expert_decoder_layers}};
const RegisterTransformer registered_minimax_m2{"minimax_m2", {read_minimax_m2, expert_decoder_layers}};
const RegisterTransformer registered_olmoe{"olmoe", {read_olmoe, expert_decoder_layers}};
const RegisterTransformer registered_deepseek_moe{"deepseek", {read_deepseek_moe, expert_decoder_layers}};
const RegisterTransformer registered_phimoe{"phimoe", {read_phimoe, expert_decoder_layers}};
const RegisterTransformer registered_glm4_moe{"glm4_moe", {read_glm4_moe, expert_decoder_layers}};

}  // namespace
}  // namespace trainyard::transformers
