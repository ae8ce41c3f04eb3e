// DeepSeek-V2 and V3 (DeepSeek-AI 2024), Kimi K2 (2025): latent attention, and shared and routed experts after the
// first dense layers.
#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

Layer deepseek_block(const TransformerLayout& l, std::int64_t index) {
  LayerBuilder b = l.builder("block " + std::to_string(index));
  begin_branch(b, l, "attention", readers_of(l, LinearPart::qkv));
  begin_columns(b, l, "attention", readers_of(l, LinearPart::qkv));
  latent_attention(b, l);
  end_rows(b, l, "attention");
  end_branch(b, l, "attention");
  experts_branch(b, l, index);
  return l.finish_block(std::move(b));
}

std::vector<Layer> deepseek_layers(const TransformerLayout& l) { return decoder_layers(l, deepseek_block); }

void read_deepseek(Fields& f, TransformerConfig& c) {
  c.head_dim = 1;  // heads have the widths below, which are independent of the hidden size
  read_llama_keys(f, c);
  c.latent.query_rank = read_size(f, "q_lora_rank", 0);
  c.latent.key_value_rank = read_size(f, "kv_lora_rank");
  c.latent.plain_head_dim = read_size(f, "qk_nope_head_dim");
  c.latent.rotary_head_dim = read_size(f, "qk_rope_head_dim");
  c.latent.value_head_dim = read_size(f, "v_head_dim");
  c.experts.count = read_size(f, "n_routed_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = read_size(f, "moe_intermediate_size");
  if (const std::int64_t shared = f.integer("n_shared_experts", 0, 0); shared > 0)
    c.experts.shared_intermediate_size = shared * c.experts.intermediate_size;
  c.experts.first_layer = f.integer("first_k_dense_replace", 0, 0);
  check_experts(f, c);
  if (f.boolean("attention_bias", false))
    fail(f.place_of("attention_bias"), f.what() + ": biases of latent attention are not modelled; expected false");
  if (read_size(f, "moe_layer_freq", 1) != 1)
    fail(f.place_of("moe_layer_freq"), f.what() + ": experts in some layers only are not modelled; expected 1");
  // The plan sets the precision of the step, so the format of a checkpoint does not matter.
  ignore_keys(f, {"aux_loss_alpha", "ep_size", "norm_topk_prob", "num_nextn_predict_layers", "quantization_config",
                  "routed_scaling_factor", "scoring_func", "seq_aux", "topk_method"});
}

void read_deepseek_v2(Fields& f, TransformerConfig& c) {
  read_deepseek(f, c);
  read_expert_groups(f, c);
}

void read_deepseek_v3(Fields& f, TransformerConfig& c) {
  read_deepseek(f, c);
  read_expert_groups(f, c, 8, 4);  // defaults of transformers.DeepseekV3Config
  c.experts.correction_bias = f.text("topk_method", "noaux_tc") == "noaux_tc";
}

const RegisterTransformer registered_deepseek_v2{"deepseek_v2", {read_deepseek_v2, deepseek_layers}};
const RegisterTransformer registered_deepseek_v3{"deepseek_v3", {read_deepseek_v3, deepseek_layers}};
const RegisterTransformer registered_kimi_k2{"kimi_k2", {read_deepseek_v3, deepseek_layers}};

}  // namespace

void latent_attention(LayerBuilder& b, const TransformerLayout& l) {
  const LatentConfig& c = l.config.latent;
  const double rank = static_cast<double>(c.key_value_rank), query_rank = static_cast<double>(c.query_rank);
  const double rotary = static_cast<double>(c.rotary_head_dim), plain = static_cast<double>(c.plain_head_dim);
  AttentionShape a = self_attention_shape(l);
  a.key_value_heads = a.heads;
  a.query_width = plain + rotary;
  a.value_width = static_cast<double>(c.value_head_dim);
  const double query = a.heads * a.query_width;

  b.shared_input("latent", l.hidden(), 2);
  LayerBuilder::Linear down = column_linear(l, "attention", false, readers_of(l, LinearPart::qkv));
  down.part = LinearPart::qkv;
  const bool partial = l.tensor_parallel();  // every rank has the whole weight, but only the gradients of its heads
  if (c.query_rank > 0) {
    b.set_partial(partial);
    down.name = "q_a";
    down.out = query_rank;
    b.linear(down);
    b.norm(l.config.norm, "q_a_norm", query_rank);
    b.set_partial(false);
    b.set_module(RecomputedPart::mla_up_proj);
    b.linear({.name = "q_b", .in = query_rank, .out = query, .part = LinearPart::qkv});
    b.set_module(RecomputedPart::none);
  } else {
    down.name = "q";
    down.out = query;
    b.linear(down);
  }
  down = column_linear(l, "attention", true, readers_of(l, LinearPart::qkv));
  down.part = LinearPart::qkv;
  down.name = "kv_a";
  down.out = rank + rotary;
  down.keeps_input = false;
  b.set_partial(partial);
  b.linear(down);
  Operator split;  // forward: views; backward: two gradients are written into one tensor
  const Bytes moved = b.row_bytes(2 * (rank + rotary));
  split.backward.push_back({elementwise("kv_a.gradient_concat", moved, l.precision), {}});
  split.backward_live = moved;
  b.add(std::move(split));
  b.norm(l.config.norm, "kv_a_norm", rank);
  b.set_partial(false);
  b.set_module(RecomputedPart::mla_up_proj);
  b.linear({.name = "kv_b", .in = rank, .out = a.heads * (plain + a.value_width), .part = LinearPart::qkv});
  b.mover("rotary.q", b.row_bytes(a.heads * rotary), b.row_bytes(a.heads * rotary));
  b.mover("rotary.k", b.row_bytes(rotary), b.row_bytes(rotary));
  b.mover("q_concat", b.row_bytes(query), b.row_bytes(query));
  b.mover("k_concat", b.row_bytes(a.heads * plain + rotary), b.row_bytes(query));
  b.set_module(RecomputedPart::none);
  attention(b, l, a);
  output_projection(b, l, a);
}

}  // namespace trainyard::transformers
