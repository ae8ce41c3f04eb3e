// Mixtures of experts with Llama's attention and different kinds of layers: Llama 4 (Meta 2025), gpt-oss (OpenAI 2025),
// GLM-4.5 (Zhipu 2025).
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
  c.experts.every = read_size(f, "interleave_moe_layer_step", 1);
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
  c.sliding_window = read_size(f, "sliding_window", 128);
  c.full_attention_every = read_layer_types(f, c.num_hidden_layers, 2);
  ignore_keys(f, {"experts_per_token", "initial_context_length", "output_router_logits", "quantization_config",
                  "router_aux_loss_coef", "swiglu_limit"});
}

void read_glm4_moe(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = f.boolean("attention_bias", false);
  if (f.boolean("use_qk_norm", false)) c.head_norms = HeadNorms::each;
  c.experts.count = read_size(f, "n_routed_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = read_size(f, "moe_intermediate_size");
  c.experts.shared_intermediate_size = f.integer("n_shared_experts", 0, 0) * c.experts.intermediate_size;
  c.experts.first_layer = f.integer("first_k_dense_replace", 0, 0);
  c.experts.correction_bias = true;
  check_experts(f, c);
  read_expert_groups(f, c);
  ignore_keys(f, {"norm_topk_prob", "num_nextn_predict_layers", "partial_rotary_factor", "routed_scaling_factor"});
}

const RegisterTransformer registered_llama4{"llama4_text", {read_llama4, expert_decoder_layers}};
const RegisterTransformer registered_gpt_oss{"gpt_oss", {read_gpt_oss, expert_decoder_layers}};
const RegisterTransformer registered_glm4_moe{"glm4_moe", {read_glm4_moe, expert_decoder_layers}};

}  // namespace
}  // namespace trainyard::transformers
