// Networks with state-space layers or linear attention: Mamba-2 (Dao & Gu 2024), Nemotron-H (NVIDIA 2025), Bamba and
// Granite 4 (IBM), Qwen3-Next and Qwen3.5 (Qwen Team 2025), Kimi Linear (Kimi Team 2025).
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

using namespace layer_letters;

const char* kind_of_layer(char letter) {
  return letter == kScan ? "mamba" : letter == kAttention ? "attention" : letter == kExperts ? "experts" : "mlp";
}

void pattern_branch(LayerBuilder& b, const TransformerLayout& l, char letter, std::int64_t index) {
  if (letter == kScan)
    scan_branch(b, l);
  else if (letter == kAttention)
    attention_branch(b, l, index);
  else if (letter == kExperts)
    experts_branch(b, l, index);
  else
    feed_forward_branch(b, l);
}

/// A layer of a `pattern` is one branch.
Layer pattern_block(const TransformerLayout& l, std::int64_t index) {
  const char letter = l.config.pattern[static_cast<std::size_t>(index)];
  LayerBuilder b = l.builder(fmt::format("{} {}", kind_of_layer(letter), index));
  pattern_branch(b, l, letter, index);
  return l.finish_block(std::move(b));
}

void further_branches(LayerBuilder& b, const TransformerLayout& l, std::int64_t index) {
  for (const char letter : l.config.further_pattern) pattern_branch(b, l, letter, index);
}

std::vector<Layer> pattern_layers(const TransformerLayout& l) {
  std::vector<Layer> layers = decoder_layers(l, pattern_block);
  if (l.config.further_tokens > 0) layers.back() = language_head(l, further_branches);
  return layers;
}

/// A block of linear or full attention, then experts or a dense feed-forward part.
Layer mixed_block(const TransformerLayout& l, std::int64_t index) {
  const bool scans = l.config.pattern[static_cast<std::size_t>(index)] == kScan;
  LayerBuilder b = l.builder((scans ? "linear block " : "block ") + std::to_string(index));
  if (scans)
    scan_branch(b, l);
  else if (l.config.latent.key_value_rank > 0)
    latent_branch(b, l);
  else
    attention_branch(b, l, index);
  experts_branch(b, l, index);
  return l.finish_block(std::move(b));
}

std::vector<Layer> mixed_layers(const TransformerLayout& l) { return decoder_layers(l, mixed_block); }

/// Returns the letter of a word of `layers_block_type` or `layer_types`.
char letter_of(const Node& word, const std::string& what) {
  const std::string& name = word.scalar;
  if (name == "mamba" || name == "linear_attention") return kScan;
  if (name == "attention" || name == "full_attention") return kAttention;
  if (name == "moe") return kExperts;
  if (name == "mlp") return kDense;
  fail(word.place, what + ": \"" + name + "\" is no kind of layer; expected mamba, attention, moe or mlp");
}

void check_length(Fields& f, const char* key, const std::string& pattern, std::int64_t layers) {
  if (static_cast<std::int64_t>(pattern.size()) != layers)
    f.refuse(key, fmt::format("{} layers, but num_hidden_layers is {}", pattern.size(), layers));
}

/// Reads a letter for each layer. The key is required if there is no `fallback`.
std::string read_letters(Fields& f, const char* key, const char* fallback) {
  const std::string letters = fallback ? f.text(key, fallback) : f.text(key);
  const std::size_t other = letters.find_first_not_of("M*E-");
  if (other != std::string::npos)
    f.refuse(key, fmt::format("'{}' is no kind of layer; expected M (Mamba), * (attention), E (experts), - (dense)",
                              letters[other]));
  return letters;
}

/// Reads the kinds of layers: hybrid_override_pattern, or the list layers_block_type.
void read_pattern(Fields& f, TransformerConfig& c) {
  const char* key = "hybrid_override_pattern";
  if (const std::vector<Node>* kinds = f.list("layers_block_type")) {
    key = "layers_block_type";
    for (const Node& kind : *kinds) c.pattern += letter_of(kind, f.what() + "." + key);
    f.has("hybrid_override_pattern");
  } else {
    c.pattern = read_letters(f, key, nullptr);
  }
  c.num_hidden_layers =
      f.has("num_hidden_layers") ? read_layers(f, {"num_hidden_layers"}) : static_cast<std::int64_t>(c.pattern.size());
  check_length(f, key, c.pattern, c.num_hidden_layers);
}

void read_nemotron_h(Fields& f, TransformerConfig& c) {
  read_pattern(f, c);
  c.vocab_size = read_size(f, "vocab_size");
  c.hidden_size = read_size(f, "hidden_size");
  c.max_position_embeddings = read_size(f, "max_position_embeddings");
  c.num_attention_heads = read_size(f, "num_attention_heads");
  const bool has_groups = f.has("num_key_value_heads") || f.has("num_query_groups");
  c.num_key_value_heads =
      has_groups ? read_size(f, {"num_key_value_heads", "num_query_groups"}) : c.num_attention_heads;
  c.head_dim = read_size(f, "head_dim", read_size(f, "attention_head_dim", 128));
  finish_heads(f, c);
  c.intermediate_size = read_size(f, "intermediate_size", c.hidden_size);
  c.activation = read_activation(f, "mlp_hidden_act", "relu2");
  c.mlp_bias = f.boolean("mlp_bias", false);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.attention_dropout = read_probability(f, "attention_dropout", 0);
  c.residual_dropout = read_probability(f, "hidden_dropout", 0);
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", false);
  c.norm = Norm::rms_norm;
  c.position_embedding = PositionEmbedding::none;
  c.scan.kind = ScanKind::mamba2;
  c.scan.heads = read_size(f, "mamba_num_heads");
  c.scan.head_dim = read_size(f, "mamba_head_dim", 64);
  c.scan.groups = read_size(f, "n_groups", 8);
  c.scan.state = read_size(f, "ssm_state_size", 128);
  c.scan.taps = read_size(f, "conv_kernel", 4);
  c.scan.chunk = read_size(f, "chunk_size", 128);
  c.scan.convolution_bias = f.boolean("use_conv_bias", true);
  c.scan.projection_bias = f.boolean("mamba_proj_bias", f.boolean("use_bias", false));
  check_groups(f, c.scan, "n_groups");
  if (c.has_layer(kExperts)) {
    c.experts.count = read_size(f, "n_routed_experts");
    c.experts.per_token = read_size(f, "num_experts_per_tok");
    c.experts.intermediate_size = read_size(f, "moe_intermediate_size");
    if (f.integer("n_shared_experts", 0, 1) > 0)
      c.experts.shared_intermediate_size = read_size(f, "moe_shared_expert_intermediate_size");
    c.experts.dense_intermediate_size = c.intermediate_size;
    c.experts.correction_bias = true;
    c.experts.latent_size = read_size(f, "moe_latent_size", 0);
    check_experts(f, c);
    read_expert_groups(f, c);
  }
  read_further_tokens(f, c);
  c.further_pattern = read_letters(f, "mtp_hybrid_override_pattern", c.has_layer(kExperts) ? "*E" : "*-");
}

/// Bamba (IBM 2024): Mamba-2 or attention, then a dense feed-forward part.
void read_bamba(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  read_mamba_keys(f, c);
  c.pattern = std::string(static_cast<std::size_t>(c.num_hidden_layers), kScan);
  if (const std::vector<Node>* layers = f.list("attn_layer_indices"))
    for (const Node& layer : *layers)
      c.pattern[static_cast<std::size_t>(
          whole_number(layer, f.what() + ".attn_layer_indices", 0, c.num_hidden_layers - 1))] = kAttention;
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.mlp_bias = f.boolean("mlp_bias", false);
}

/// Granite 4 (IBM 2025): Mamba-2 or attention, then shared and routed experts or a dense feed-forward part. Its
/// multipliers change no tensor.
void read_granite_hybrid(Fields& f, TransformerConfig& c) {
  read_llama_keys(f, c);
  read_mamba_keys(f, c);
  const std::vector<Node>* kinds = f.list("layer_types");
  if (!kinds) kinds = f.list("layers_block_type");
  if (!kinds) fail(f.place(), f.what() + ": missing key \"layer_types\"");
  for (const Node& kind : *kinds) c.pattern += letter_of(kind, f.what() + ".layer_types");
  check_length(f, "layer_types", c.pattern, c.num_hidden_layers);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  if (f.text("position_embedding_type", "nope") != "rope") c.position_embedding = PositionEmbedding::none;
  const std::int64_t shared = read_size(f, "shared_intermediate_size");
  c.experts.count = f.integer("num_local_experts", 0, 0);
  if (c.experts.count > 0) {
    c.experts.per_token = read_size(f, "num_experts_per_tok");
    c.experts.intermediate_size = c.intermediate_size;
    c.experts.shared_intermediate_size = shared;
    check_experts(f, c);
  } else {
    c.intermediate_size = shared;
  }
}

void read_mamba2(Fields& f, TransformerConfig& c) {
  c.vocab_size = read_size(f, "vocab_size");
  c.hidden_size = read_size(f, "hidden_size");
  c.num_hidden_layers = read_layers(f, {"num_hidden_layers"});
  c.pattern = std::string(static_cast<std::size_t>(c.num_hidden_layers), kScan);
  c.scan.kind = ScanKind::mamba2;
  c.scan.head_dim = read_size(f, "head_dim", 64);
  const std::int64_t inner = read_size(f, "expand", 2) * c.hidden_size;
  c.scan.heads = read_size(f, "num_heads", std::max<std::int64_t>(1, inner / c.scan.head_dim));
  if (c.scan.inner() != inner)
    f.refuse("num_heads",
             fmt::format("{} heads of {} are not expand times hidden_size, {}", c.scan.heads, c.scan.head_dim, inner));
  c.scan.groups = read_size(f, "n_groups", 8);
  c.scan.state = read_size(f, "state_size", 128);
  c.scan.taps = read_size(f, "conv_kernel", 4);
  c.scan.chunk = read_size(f, "chunk_size", 256);
  c.scan.convolution_bias = f.boolean("use_conv_bias", true);
  c.scan.projection_bias = f.boolean("use_bias", false);
  c.scan.gated_norm = f.boolean("rms_norm", true);
  check_groups(f, c.scan, "n_groups");
  // There is no attention and no feed-forward part. The sizes of the scan's heads are set for the code that divides
  // heads over ranks.
  c.num_attention_heads = c.num_key_value_heads = c.scan.heads;
  c.head_dim = c.scan.head_dim;
  c.intermediate_size = c.scan.inner();
  c.activation = "silu";
  c.norm = Norm::rms_norm;
  c.position_embedding = PositionEmbedding::none;
  c.max_position_embeddings = read_size(f, "max_position_embeddings", 2048);  // Dao & Gu 2024 train with so many
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", false);
}

/// Reads the keys of Qwen's gated delta nets, and which layers have full attention.
void read_gated_delta(Fields& f, TransformerConfig& c) {
  c.scan.kind = ScanKind::gated_delta;
  c.scan.heads = read_size(f, "linear_num_value_heads", 32);
  c.scan.head_dim = read_size(f, "linear_value_head_dim", 128);
  c.scan.groups = read_size(f, "linear_num_key_heads", 16);
  c.scan.state = read_size(f, "linear_key_head_dim", 128);
  c.scan.taps = read_size(f, "linear_conv_kernel_dim", 4);
  c.scan.chunk = kDeltaChunk;
  check_groups(f, c.scan, "linear_num_key_heads");
  c.attention_gate = f.boolean("attn_output_gate", true);
  c.head_norms = HeadNorms::one_a_head;
  const std::int64_t every = read_size(f, "full_attention_interval", 4);
  if (const std::vector<Node>* kinds = f.list("layer_types")) {
    for (const Node& kind : *kinds) c.pattern += letter_of(kind, f.what() + ".layer_types");
    check_length(f, "layer_types", c.pattern, c.num_hidden_layers);
  } else {
    for (std::int64_t i = 1; i <= c.num_hidden_layers; ++i) c.pattern += i % every == 0 ? kAttention : kScan;
  }
}

void read_qwen3_next(Fields& f, TransformerConfig& c) {
  c.head_dim = 256;  // defaults of transformers.Qwen3NextConfig
  c.intermediate_size = 5632;
  read_qwen_experts(f, c);
  read_gated_delta(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  c.experts.shared_intermediate_size = read_size(f, "shared_expert_intermediate_size", 512);
  c.experts.shared_gate = true;
}

void read_qwen3_5(Fields& f, TransformerConfig& c) {
  c.head_dim = 256;
  read_llama_keys(f, c);
  read_gated_delta(f, c);
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
}

/// Reads the numbers of layers, counted from 1, with linear and with full attention.
void read_kimi_layers(Fields& linear, TransformerConfig& c) {
  c.pattern = std::string(static_cast<std::size_t>(c.num_hidden_layers), ' ');
  for (const auto& [key, letter] : {std::pair{"kda_layers", kScan}, {"full_attn_layers", kAttention}}) {
    const std::vector<Node>* numbers = linear.list(key);
    if (!numbers) fail(linear.place_of(key), linear.what() + ": missing key \"" + key + "\"");
    for (const Node& number : *numbers)
      c.pattern[static_cast<std::size_t>(whole_number(number, linear.what() + "." + key, 1, c.num_hidden_layers) - 1)] =
          letter;
  }
  if (const std::size_t missing = c.pattern.find(' '); missing != std::string::npos)
    fail(linear.place_of("kda_layers"),
         fmt::format("{}: layer {} is in none of kda_layers and full_attn_layers", linear.what(), missing + 1));
}

void read_kimi_linear(Fields& f, TransformerConfig& c) {
  c.max_position_embeddings = read_size(f, "model_max_length", 0);
  read_latent(f, c);
  c.position_embedding = PositionEmbedding::none;  // its latent attention rotates nothing
  c.experts.count = read_size(f, "num_experts");
  c.experts.per_token = read_size(f, "num_experts_per_token");
  c.experts.intermediate_size = read_size(f, "moe_intermediate_size");
  c.experts.shared_intermediate_size = f.integer("num_shared_experts", 0, 0) * c.experts.intermediate_size;
  c.experts.first_layer = f.integer("first_k_dense_replace", 0, 0);
  c.experts.correction_bias = true;
  if (c.experts.per_token > c.experts.count) f.refuse("num_experts_per_token", "more experts than there are");
  f.read_required_map("linear_attn_config", [&c](Fields& linear) {
    read_kimi_layers(linear, c);
    c.scan.kind = ScanKind::kimi_delta;
    c.scan.heads = c.scan.groups = read_size(linear, "num_heads");
    c.scan.head_dim = c.scan.state = read_size(linear, "head_dim");
    c.scan.taps = read_size(linear, "short_conv_kernel_size", 4);
    c.scan.chunk = kDeltaChunk;
  });
}

const RegisterTransformer registered_nemotron_h{"nemotron_h", {read_nemotron_h, pattern_layers}};
const RegisterTransformer registered_bamba{"bamba", {read_bamba, mixed_layers}};
const RegisterTransformer registered_granite_hybrid{"granitemoehybrid", {read_granite_hybrid, mixed_layers}};
const RegisterTransformer registered_mamba2{"mamba2", {read_mamba2, pattern_layers}};
const RegisterTransformer registered_qwen3_next{"qwen3_next", {read_qwen3_next, mixed_layers}};
const RegisterTransformer registered_qwen3_5{"qwen3_5_text", {read_qwen3_5, mixed_layers}};
const RegisterTransformer registered_qwen3_5_moe{"qwen3_5_moe_text", {read_qwen3_next, mixed_layers}};
const RegisterTransformer registered_kimi_linear{"kimi_linear", {read_kimi_linear, mixed_layers}};

}  // namespace

void check_groups(Fields& f, const ScanConfig& scan, const char* key) {
  if (scan.heads % scan.groups != 0)
    f.refuse(key, fmt::format("{} groups do not divide {} heads", scan.groups, scan.heads));
}

void read_mamba_keys(Fields& f, TransformerConfig& c, std::int64_t inner) {
  c.scan.kind = ScanKind::mamba2;
  c.scan.heads = read_size(f, "mamba_n_heads", 128);
  if (inner == 0) inner = read_size(f, "mamba_expand", 2) * c.hidden_size;
  const bool states_width = f.has("mamba_d_head") && f.child("mamba_d_head")->scalar != "auto";
  c.scan.head_dim = states_width ? read_size(f, "mamba_d_head") : inner / c.scan.heads;
  c.scan.groups = read_size(f, "mamba_n_groups", 1);
  c.scan.state = read_size(f, "mamba_d_state", 256);
  c.scan.taps = read_size(f, "mamba_d_conv", 4);
  c.scan.chunk = read_size(f, "mamba_chunk_size", 256);
  c.scan.convolution_bias = f.boolean("mamba_conv_bias", true);
  c.scan.projection_bias = f.boolean("mamba_proj_bias", false);
  check_groups(f, c.scan, "mamba_n_groups");
}

}  // namespace trainyard::transformers
