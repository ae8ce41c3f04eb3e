// DeepSeek-V2 and V3 (DeepSeek-AI 2024), Kimi K2 (2025): latent attention, and shared and routed experts after the
// first dense layers.
#include <algorithm>

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

void deepseek_branches(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  latent_branch(b, l);
  experts_branch(b, l, index);
}

std::vector<Layer> deepseek_layers(const TransformerLayout& l) { return decoder_layers(l, deepseek_branches); }

void read_deepseek(Fields& f, TransformerConfig& c) {
  read_latent(f, c);
  read_routed_experts(f, c);
  refuse_true(f, "attention_bias", "biases of latent attention are");
  if (read_size(f, "moe_layer_freq", 1) != 1)
    f.refuse("moe_layer_freq", "experts in some layers only are not modelled; expected 1");
  read_further_tokens(f, c);
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

/// DeepSeek-V3.2 (DeepSeek-AI 2025): attention reads the keys that an indexer chooses.
void read_deepseek_v32(Fields& f, TransformerConfig& c) {
  read_deepseek_v3(f, c);
  c.indexer = {read_size(f, "index_n_heads"), read_size(f, "index_head_dim"), read_size(f, "index_topk")};
  if (c.latent.query_rank == 0) f.refuse("q_lora_rank", "missing, but the indexer reads the queries' latent");
  if (read_size(f, "index_topk_freq", 1) != 1)
    f.refuse("index_topk_freq", "an indexer for several layers is not modelled; expected 1");
  ignore_keys(f, {"indexer_rope_interleave", "qk_head_dim", "rope_interleave"});
}

const RegisterTransformer registered_deepseek_v32{"deepseek_v32", {read_deepseek_v32, deepseek_layers}};
const RegisterTransformer registered_glm_moe_dsa{"glm_moe_dsa", {read_deepseek_v32, deepseek_layers}};
const RegisterTransformer registered_deepseek_v2{"deepseek_v2", {read_deepseek_v2, deepseek_layers}};
const RegisterTransformer registered_deepseek_v3{"deepseek_v3", {read_deepseek_v3, deepseek_layers}};
const RegisterTransformer registered_kimi_k2{"kimi_k2", {read_deepseek_v3, deepseek_layers}};

/// Scores all keys before a query with a few small heads, and chooses the best. It reads its inputs without a gradient,
/// and learns from the distribution of attention over the chosen keys, which is computed again (DeepSeek-AI 2025, eq. 1
/// to 4). Every tensor rank computes all of it.
void index_keys(LayerBuilder& b, const TransformerLayout& l, const AttentionShape& attention) {
  const IndexerConfig& c = l.config.indexer;
  const double heads = static_cast<double>(c.heads), dim = static_cast<double>(c.head_dim);
  const auto project = [&](const char* name, double in, double out) {
    b.linear({.name = name, .in = in, .out = out, .keeps_input = false, .input_gradient = false});
  };
  project("indexer.q", static_cast<double>(l.config.latent.query_rank), heads * dim);
  project("indexer.k", l.hidden(), dim);
  project("indexer.weights", l.hidden(), heads);
  b.norm(Norm::layer_norm, "indexer.k_norm", dim);
  AttentionShape all = attention;
  all.window = 0;
  const double every = l.samples * all.pairs(), chosen = l.samples * attention.pairs();
  const Bytes inputs = b.row_bytes((heads + 1) * dim + heads);
  const Bytes scores = element_size(Precision::fp32) * every, indices = Bytes{4} * chosen;
  const Precision precision = l.options.fp8 ? Precision::fp8 : l.precision;
  const double score = 2 * heads * dim;  // FLOPs of a query and a key
  Operator op;
  op.forward = {kernel_call("indexer.scores", Kernel::gemm, Flops{every * score}, inputs + scores, precision),
                elementwise("indexer.top_k", scores + indices, l.precision)};
  op.backward = {
      {kernel_call("indexer.target", Kernel::gemm, Flops{chosen * 2 * attention.heads * attention.query_width},
                   b.row_bytes(attention.heads * attention.query_width) + indices * 2, l.precision),
       {}},
      {kernel_call("indexer.scores.backward", Kernel::gemm, Flops{3 * chosen * score}, inputs * 2 + indices * 2,
                   l.precision),
       {}}};
  op.saved_tensors.assign({{"indexer.input", inputs}, {"indexer.indices", indices}});
  op.forward_live = scores;
  op.backward_live = inputs + indices;
  b.add(std::move(op));
}

}  // namespace

void read_routed_experts(Fields& f, TransformerConfig& c) {
  c.experts.count = read_size(f, "n_routed_experts");
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = read_size(f, "moe_intermediate_size");
  c.experts.shared_intermediate_size = f.integer("n_shared_experts", 0, 0) * c.experts.intermediate_size;
  c.experts.first_layer = f.integer("first_k_dense_replace", 0, 0);
  check_experts(f, c);
}

void read_latent(Fields& f, TransformerConfig& c) {
  c.head_dim = 1;  // heads have the widths below, which are independent of the hidden size
  read_llama_keys(f, c);
  c.latent.query_rank = read_size(f, "q_lora_rank", 0);
  c.latent.key_value_rank = read_size(f, "kv_lora_rank");
  c.latent.plain_head_dim = read_size(f, "qk_nope_head_dim");
  c.latent.rotary_head_dim = read_size(f, "qk_rope_head_dim");
  c.latent.value_head_dim = read_size(f, "v_head_dim");
}

void latent_branch(LayerBuilder& b, const TransformerLayout& l) {
  begin_branch(b, l, "attention", readers_of(l, LinearPart::qkv));
  begin_columns(b, l, "attention", readers_of(l, LinearPart::qkv));
  latent_attention(b, l);
  end_rows(b, l, "attention");
  end_branch(b, l, "attention");
}

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
  AttentionShape core = a;
  if (l.config.indexer.keys > 0) {
    // Chosen keys are read in the latent space, where all heads have one. The products of `kv_b` then project queries
    // to it and outputs from it: they have the same sizes.
    core.key_value_heads = 1;
    core.query_width = rank + rotary;
    core.value_width = rank;
    core.window = std::min(a.keys, static_cast<double>(l.config.indexer.keys));
    index_keys(b, l, core);
  }
  b.set_module(RecomputedPart::mla_up_proj);
  b.linear({.name = "kv_b", .in = rank, .out = a.heads * (plain + a.value_width), .part = LinearPart::qkv});
  if (l.config.position_embedding == PositionEmbedding::rotary) {
    b.mover("rotary.q", b.row_bytes(a.heads * rotary), b.row_bytes(a.heads * rotary));
    b.mover("rotary.k", b.row_bytes(rotary), b.row_bytes(rotary));
  }
  const double wide = core.heads * core.query_width;
  b.mover("q_concat", b.row_bytes(wide), b.row_bytes(wide));
  b.mover("k_concat", b.row_bytes(a.heads * plain + rotary), b.row_bytes(core.key_value_heads * core.query_width));
  b.set_module(RecomputedPart::none);
  attention(b, l, core);
  output_projection(b, l, a);
}

}  // namespace trainyard::transformers
