// Mixtures of experts with Llama's attention and different kinds of layers: Llama 4 (Meta 2025), gpt-oss (OpenAI 2025),
// GLM-4.5 (Zhipu 2025), dots.llm1, ERNIE 4.5, MiniMax-M2, OLMoE, DeepSeekMoE (DeepSeek-AI 2024), Phi-3.5-MoE (Microsoft
// 2024).
// Mixtral (Jiang et al. 2024) and Qwen's mixtures of experts: Llama's attention, experts in every layer.
// DeepSeek-V2 and V3 (DeepSeek-AI 2024), Kimi K2 (2025): latent attention, and shared and routed experts after the
// first dense layers.
#include <fmt/format.h>
#include <algorithm>

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// Reads experts that are as wide as `intermediate_size`. `count_key`: the key of their number.
void read_like_experts(Fields& f, TransformerConfig& c, const char* count_key) {
  c.experts.count = read_size(f, count_key);
  c.experts.per_token = read_size(f, "num_experts_per_tok");
  c.experts.intermediate_size = c.intermediate_size;
  check_experts(f, c);
}

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
}

/// Reads groups of experts with a correction bias, after dense layers.
void read_grouped_experts(Fields& f, TransformerConfig& c) {
  read_routed_experts(f, c);
  c.experts.correction_bias = true;
  read_expert_groups(f, c);
}

/// dots.llm1 (rednote 2025).
void read_dots1(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = f.boolean("attention_bias", false);
  c.head_norms = HeadNorms::one_a_head;
  refuse_partial_window(f);
  read_grouped_experts(f, c);
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
}

/// MiniMax-M2 (2025).
void read_minimax_m2(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  if (f.boolean("use_qk_norm", true)) c.head_norms = HeadNorms::all;
  read_like_experts(f, c, "num_local_experts");
  c.experts.correction_bias = f.boolean("use_routing_bias", true);
}

/// OLMoE (Allen Institute for AI 2024).
void read_olmoe(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.head_norms = HeadNorms::all;
  read_like_experts(f, c, "num_experts");
}

/// DeepSeekMoE 16B: attention as in Llama, not through a latent.
void read_deepseek_moe(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  read_routed_experts(f, c);
  if (read_size(f, "moe_layer_freq", 1) != 1)
    f.refuse("moe_layer_freq", "experts in some layers only are not modelled; expected 1");
}

/// Phi-3.5-MoE: LayerNorm, and biases of attention and of the output projection.
void read_phimoe(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.norm = Norm::layer_norm;
  c.sliding_window = read_size(f, "sliding_window", 0);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.head_bias = f.boolean("lm_head_bias", false);
  c.residual_dropout = read_probability(f, "hidden_dropout", 0);
  read_like_experts(f, c, "num_local_experts");
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

void expert_branches(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  attention_branch(b, l, index);
  experts_branch(b, l, index);
}

void read_mixtral(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  c.sliding_window = read_size(f, "sliding_window", 0);
  read_like_experts(f, c, "num_local_experts");
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
}

const RegisterTransformer registered_granite_moe{"granitemoe", {read_granite_moe, expert_decoder_layers}};
const RegisterTransformer registered_mixtral{"mixtral", {read_mixtral, expert_decoder_layers}};
const RegisterTransformer registered_qwen2_moe{"qwen2_moe", {read_qwen2_moe, expert_decoder_layers}};
const RegisterTransformer registered_qwen3_moe{"qwen3_moe", {read_qwen3_moe, expert_decoder_layers}};

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
}

const RegisterTransformer registered_deepseek_v32{"deepseek_v32", {read_deepseek_v32, deepseek_layers}};
const RegisterTransformer registered_glm_moe_dsa{"glm_moe_dsa", {read_deepseek_v32, deepseek_layers}};
const RegisterTransformer registered_deepseek_v2{"deepseek_v2", {read_deepseek_v2, deepseek_layers}};
const RegisterTransformer registered_deepseek_v3{"deepseek_v3", {read_deepseek_v3, deepseek_layers}};
const RegisterTransformer registered_kimi_k2{"kimi_k2", {read_deepseek_v3, deepseek_layers}};

/// Projects queries and keys of the indexer, and chooses keys. It reads its inputs without a gradient. Every tensor rank
/// computes all of it.
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
  choose_keys(b, l, "indexer", {heads, dim, attention.keys, static_cast<double>(c.keys), attention.causal}, attention);
}

}  // namespace

double KeyChoice::chosen_mean() const {
  const double most = std::min(chosen, keys);
  return causal ? most - most * most / (2 * keys) : most;
}

void choose_keys(LayerBuilder& b, const TransformerLayout& l, const std::string& name, const KeyChoice& c,
                 const AttentionShape& attention) {
  const double rows = l.samples * attention.queries, every = rows * c.keys / (c.causal ? 2 : 1);
  const double chosen = rows * c.chosen_mean();
  const Bytes inputs = b.row_bytes(c.heads * c.head_dim + c.heads) + l.size() * (l.samples * c.keys * c.head_dim);
  const Bytes scores = element_size(Precision::fp32) * every, indices = Bytes{4} * chosen;
  const Precision precision = l.options.fp8 ? Precision::fp8 : l.precision;
  const double score = 2 * c.heads * c.head_dim;  // FLOPs of a query and a key
  Operator op;
  op.forward = {kernel_call(name + ".scores", Kernel::gemm, Flops{every * score}, inputs + scores, precision),
                elementwise(name + ".top_k", scores + indices, l.precision)};
  op.backward = {
      {kernel_call(name + ".target", Kernel::gemm, Flops{chosen * 2 * attention.heads * attention.query_width},
                   b.row_bytes(attention.heads * attention.query_width) + indices * 2, l.precision),
       {}},
      {kernel_call(name + ".scores.backward", Kernel::gemm, Flops{3 * chosen * score}, inputs * 2 + indices * 2,
                   l.precision),
       {}}};
  op.saved_tensors.assign({{name + ".input", inputs}, {name + ".indices", indices}});
  op.forward_live = scores;
  op.backward_live = inputs + indices;
  b.add(std::move(op));
}

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
  read_latent_sizes(f, c);
}

void read_latent_sizes(Fields& f, TransformerConfig& c) {
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
