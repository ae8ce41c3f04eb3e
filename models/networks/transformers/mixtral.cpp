// Mixtral (Jiang et al. 2024) and Qwen's mixtures of experts: Llama's attention, experts in every layer.
#include <fmt/format.h>

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

void expert_branches(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  attention_branch(b, l, index);
  experts_branch(b, l, index);
}

void read_mixtral(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.sliding_window = read_size(f, "sliding_window", 0);
  c.experts.count = read_size(f, "num_local_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = c.intermediate_size;
  check_experts(f, c);
  ignore_keys(f, {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"});
}

void read_qwen2_moe(Fields& f, TransformerConfig& c) {
  read_qwen_experts(f, c);
  c.qkv_bias = true;
  c.experts.shared_intermediate_size = read_size(f, "shared_expert_intermediate_size");
  c.experts.shared_gate = true;
}

void read_qwen3_moe(Fields& f, TransformerConfig& c) {
  read_qwen_experts(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.head_norms = HeadNorms::one_a_head;
}

/// Granite's mixtures of experts (IBM 2024). Its multipliers change no tensor.
void read_granite_moe(Fields& f, TransformerConfig& c) {
  read_mixtral(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  ignore_keys(f, {"attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier"});
}

const RegisterTransformer registered_granite_moe{"granitemoe", {read_granite_moe, expert_decoder_layers}};
const RegisterTransformer registered_mixtral{"mixtral", {read_mixtral, expert_decoder_layers}};
const RegisterTransformer registered_qwen2_moe{"qwen2_moe", {read_qwen2_moe, expert_decoder_layers}};
const RegisterTransformer registered_qwen3_moe{"qwen3_moe", {read_qwen3_moe, expert_decoder_layers}};

}  // namespace

std::vector<Layer> expert_decoder_layers(const TransformerLayout& l) { return decoder_layers(l, expert_branches); }

void read_qwen_experts(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  refuse_partial_window(f);
  c.experts.count = read_size(f, "num_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = read_size(f, "moe_intermediate_size");
  check_experts(f, c);
  c.experts.layer_interval = read_size(f, "decoder_sparse_step", 1);
  const Node* dense = f.child("mlp_only_layers");
  if (dense && !dense->items.empty())
    fail(dense->place, f.what() + ": mlp_only_layers: experts in some layers only are not modelled; expected []");
  ignore_keys(f, {"norm_topk_prob", "output_router_logits", "router_aux_loss_coef"});
}

void read_expert_groups(Fields& f, TransformerConfig& c, std::int64_t groups, std::int64_t groups_per_token) {
  c.experts.groups = read_size(f, "n_group", groups);
  c.experts.groups_per_token = read_size(f, "topk_group", groups_per_token);
  if (c.experts.count % c.experts.groups == 0 && c.experts.groups_per_token <= c.experts.groups) return;
  fail(f.place_of("n_group"),
       fmt::format("{}: n_group and topk_group: {} of {} equal groups of {} experts are expected", f.what(),
                   c.experts.groups_per_token, c.experts.groups, c.experts.count));
}

void read_further_tokens(Fields& f, TransformerConfig& c) {
  c.further_tokens = f.integer_within<int>("mtp_num_layers", 0, 16, 0);
}

void check_experts(Fields& f, const TransformerConfig& c) {
  if (c.experts.per_token > c.experts.count)
    fail(f.place_of("num_experts_per_tok"), fmt::format("{}: num_experts_per_tok is {}, but there are {} experts",
                                                        f.what(), c.experts.per_token, c.experts.count));
}

}  // namespace trainyard::transformers
