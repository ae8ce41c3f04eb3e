// Reads networks that are written as layers of operators.
// Hugging Face's configs of networks that the catalog writes as operators.
#include "models/networks/transformers/operator_lists.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "models/reading/catalog.hpp"
#include "models/reading/formula.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostListed = 100000;  // operators with repetition; a typing error must not fill the memory

/// The keys of an operator besides `name`, `rows` and `every_rank`, which all have.
struct OperatorKeys {
  const char* word;
  std::vector<std::string> required, optional, flags;
  bool splits = false;
  std::vector<std::pair<std::string, std::vector<std::string>>> words = {};  ///< keys with the words that they may have
};

const std::vector<OperatorKeys>& operator_keys() {
  static const std::vector<OperatorKeys> all{
      {"linear", {"in", "out"}, {"readers"}, {"bias", "first", "shares_input", "after_attention"}, true},
      {"layer_norm", {"width"}, {"heads"}, {}, true},
      {"rms_norm", {"width"}, {"heads"}, {}, true},
      {"plain_norm", {"width"}, {}, {}},
      {"scale", {"width"}, {}, {"shift"}},
      {"activation", {"width"}, {}, {"gated"}, true},
      {"attention", {"heads", "width"}, {"key_value_heads", "keys", "attended"}, {"causal"}},
      {"experts", {"width", "experts", "chosen", "inner"}, {"shared"}, {"gated", "bias", "router_bias", "shared_gate"}},
      {"mamba2", {"width", "heads", "head", "groups", "state"}, {"chunk", "taps"}, {"bias"}},
      {"gated_delta", {"width", "heads", "head", "groups", "state"}, {"chunk", "taps"}, {"bias"}},
      {"kimi_delta", {"width", "heads", "head", "groups", "state"}, {"chunk", "taps"}, {"bias"}},
      {"convolution", {"width", "taps"}, {}, {"bias"}, true},
      {"kernel", {"moved"}, {"flops", "backward_moved", "backward_flops", "kept", "parameters"}, {"sequential"}, true},
      {"exchange",
       {"width"},
       {},
       {},
       false,
       {{"kind", {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}},
        {"over", {"tensor", "context", "expert"}}}},
      {"rotary", {"width"}, {}, {}, true},
      {"residual", {"width"}, {}, {}},
      {"embedding", {"entries", "width"}, {}, {}},
      {"tables", {"entries", "width"}, {"tables", "lookups", "element"}, {}},
      {"interaction", {"vectors", "width"}, {"others"}, {}},
      {"learned", {"elements", "width"}, {}, {}},
      {"move", {"in", "out"}, {}, {}, true},
      {"cross_entropy", {"classes"}, {}, {}},
      {"mean_squared_error", {"width"}, {}, {}}};
  return all;
}

const OperatorKeys& keys_of(const std::string& word, const Place& place) {
  std::vector<std::string> words;
  for (const OperatorKeys& keys : operator_keys()) {
    if (same_name(keys.word, word)) return keys;
    words.emplace_back(keys.word);
  }
  fail(place, fmt::format("model.layers: unknown operator \"{}\"{}", word, hint(word, words)));
}

/// Reads `linear: {in: hidden, out: 64}`.
ListedOperator read_operator(const Node& item) {
  if (item.kind != Node::Kind::map || item.fields.size() != 1)
    fail(item.place, "model.layers: expected an operator, such as linear: {in: hidden, out: 64}");
  const auto& [word, node] = item.fields.front();
  const OperatorKeys& keys = keys_of(word, node.key_place);
  ListedOperator op;
  op.word = keys.word;
  op.place = node.place;
  Fields fields(node, "model.layers: " + op.word);
  op.name = fields.text("name", op.word);
  for (const std::string& key : keys.required) op.sizes[key] = fields.text(key);
  for (const std::string& key : keys.optional)
    if (fields.has(key)) op.sizes[key] = fields.text(key);
  if (fields.has("rows")) op.sizes["rows"] = fields.text("rows");
  for (const std::string& flag : keys.flags)
    if (fields.boolean(flag, false)) op.flags.insert(flag);
  for (const auto& [key, words] : keys.words) op.words[key] = fields.choice(key, words);
  if (fields.boolean("every_rank", false)) op.flags.insert("every_rank");
  if (keys.splits && fields.has("split"))
    op.split = fields.choice("split", op.word == "linear" ? std::vector<std::string>{"columns", "rows"}
                                                          : std::vector<std::string>{"columns"});
  if (const bool is_residual = op.word == "residual"; is_residual || (op.word == "tables" && fields.has("operators"))) {
    const Node& branch = fields.required_child("operators");
    if (branch.kind != Node::Kind::list)
      fail(branch.place, fmt::format("model.layers: {}: expected a list of operators", op.word));
    for (const Node& inner : branch.items) op.operators.push_back(read_operator(inner));
  }
  fields.finish();
  return op;
}

std::size_t count_of(const std::vector<ListedOperator>& operators) {
  std::size_t count = operators.size();
  for (const ListedOperator& op : operators) count += count_of(op.operators);
  return count;
}

/// Computes all sizes of the operators, to refuse those that are no formulas.
void check_sizes(const std::vector<ListedOperator>& operators, const SizeValues& sizes) {
  for (const ListedOperator& op : operators) {
    for (const auto& [key, formula] : op.sizes)
      size_value(formula, sizes, op.place, fmt::format("model.layers: {}: {}", op.word, key));
    check_sizes(op.operators, sizes);
  }
}

ListedLayer read_listed_layer(const Node& item, const SizeValues& sizes) {
  Fields fields(item, "model.layers");
  ListedLayer layer;
  layer.place = item.place;
  layer.name = fields.text("layer");
  if (fields.has("repeat")) {
    constexpr double most = 10000;
    const double repeat = size_value(fields.text("repeat"), sizes, fields.place_of("repeat"), "model.layers: repeat");
    if (repeat != std::floor(repeat) || repeat > most)
      fields.refuse("repeat", fmt::format("{:.10g}; expected a whole number from 1 to {:.0f}", repeat, most));
    layer.repeat = static_cast<std::int64_t>(repeat);
  }
  layer.width = fields.text("width", "");
  layer.rows = fields.text("rows", "tokens");
  const Node& operators = fields.required_child("operators");
  if (operators.kind != Node::Kind::list || operators.items.empty())
    fail(operators.place, "model.layers: expected a list of operators");
  for (const Node& inner : operators.items) layer.operators.push_back(read_operator(inner));
  fields.finish();
  return layer;
}

using KeyAndText = std::pair<const char*, const char*>;

/// A kind of config, and the entry of the catalog with its layers.
struct OperatorConfig {
  const char *key, *type;         ///< key that says the kind, and its value
  const char* network;            ///< name in the catalog
  std::vector<KeyAndText> sizes;  ///< key of the config, and the size of the entry that it replaces
  std::vector<KeyAndText> fixed;  ///< key of the config, and the only value that the layers are written for
  std::vector<const char*> ignored;
  std::vector<KeyAndText> tower;  ///< sizes in `vision_config`
};

const std::vector<OperatorConfig>& operator_configs() {
  static const std::vector<OperatorConfig> all{
      {"_class_name",
       "DiTTransformer2DModel",
       "dit-xl-2",
       {{"num_attention_heads", "heads"}, {"attention_head_dim", "head"}, {"num_layers", "blocks"}},
       {{"in_channels", "4"}, {"out_channels", "8"}, {"patch_size", "2"}, {"num_embeds_ada_norm", "1000"}},
       {"activation_fn", "attention_bias", "cross_attention_dim", "dropout", "norm_elementwise_affine",
        "norm_num_groups", "norm_type", "num_vector_embeds", "only_cross_attention", "sample_size", "upcast_attention",
        "use_linear_projection", "norm_eps"},
       {}},
      {"_class_name",
       "FluxTransformer2DModel",
       "flux-1-dev",
       {{"num_attention_heads", "heads"},
        {"attention_head_dim", "head"},
        {"num_layers", "double_blocks"},
        {"num_single_layers", "single_blocks"},
        {"in_channels", "patch"},
        {"joint_attention_dim", "text_width"},
        {"pooled_projection_dim", "pooled"}},
       {{"guidance_embeds", "true"}, {"patch_size", "1"}},
       {"axes_dims_rope", "out_channels"},
       {}},
      {"_class_name",
       "WanModel",
       "wan2.1-t2v-14b",
       {{"dim", "hidden"},
        {"ffn_dim", "inner"},
        {"freq_dim", "frequencies"},
        {"num_heads", "heads"},
        {"num_layers", "blocks"},
        {"text_len", "text"}},
       {{"model_type", "t2v"}, {"in_dim", "16"}, {"out_dim", "16"}},
       {"eps"},
       {}},
      {"_class_name",
       "WanTransformer3DModel",
       "wan2.1-t2v-14b",
       {{"num_attention_heads", "heads"},
        {"attention_head_dim", "head"},
        {"ffn_dim", "inner"},
        {"freq_dim", "frequencies"},
        {"num_layers", "blocks"},
        {"text_dim", "text_width"}},
       {{"cross_attn_norm", "true"},
        {"in_channels", "16"},
        {"out_channels", "16"},
        {"image_dim", "null"},
        {"added_kv_proj_dim", "null"},
        {"pos_embed_seq_len", "null"}},
       {"eps", "patch_size", "qk_norm", "rope_max_seq_len"},
       {}},
      {"model_type",
       "qwen2_5_vl",
       "qwen2.5-vl-7b",
       {{"hidden_size", "hidden"},
        {"intermediate_size", "inner"},
        {"num_attention_heads", "heads"},
        {"num_key_value_heads", "key_value_heads"},
        {"num_hidden_layers", "blocks"},
        {"vocab_size", "vocabulary"}},
       {{"tie_word_embeddings", "false"}, {"use_sliding_window", "false"}},
       {"architectures",         "attention_dropout",   "bos_token_id",         "eos_token_id",
        "vision_start_token_id", "vision_end_token_id", "vision_token_id",      "image_token_id",
        "video_token_id",        "hidden_act",          "initializer_range",    "max_position_embeddings",
        "max_window_layers",     "rms_norm_eps",        "rope_theta",           "rope_scaling",
        "sliding_window",        "torch_dtype",         "transformers_version", "use_cache"},
       {{"depth", "vision_blocks"},
        {"hidden_size", "vision"},
        {"intermediate_size", "vision_inner"},
        {"num_heads", "vision_heads"}}}};
  return all;
}

/// Replaces the sizes that the fields state.
void take_sizes(Fields& fields, const std::vector<KeyAndText>& keys, Node& sizes) {
  for (const auto& [key, size] : keys) {
    if (!fields.has(key)) continue;
    const std::int64_t value = fields.integer(key, 1);
    Node& node = *sizes.find(size);
    node.scalar = std::to_string(value);
    node.place = fields.place_of(key);
  }
}

}  // namespace

double size_value(const std::string& formula, const SizeValues& sizes, const Place& place, const std::string& what) {
  double value = 0;
  try {
    value = evaluate(formula, [&sizes](std::string_view name) {
      const auto found = sizes.find(name);
      if (found != sizes.end()) return found->second;
      std::vector<std::string> names;
      for (const auto& known_size : sizes) names.push_back(known_size.first);
      throw UserError(fmt::format("no size \"{}\"{}", name, hint(name, names)));
    });
  } catch (const UserError& e) {
    fail(place, fmt::format("{}: {}", what, e.what()));
  }
  if (!std::isfinite(value) || value <= 0)
    fail(place, fmt::format("{}: \"{}\" is {:.10g}{}; expected a size above 0", what, formula, value,
                            sizes.count("tokens") > 0 ? fmt::format(" with {:.10g} tokens", sizes.at("tokens")) : ""));
  return value;
}

SizeValues OperatorLists::values(double tokens) const {
  SizeValues all{{"tokens", tokens}, {"sample", 1}};
  for (const auto& [name, formula] : sizes) all[name] = size_value(formula, all, place, "model.sizes." + name);
  return all;
}

OperatorLists read_operator_lists(Fields& fields, double tokens) {
  OperatorLists lists;
  lists.place = fields.place();
  if (const Node* sizes = fields.child("sizes")) {
    if (sizes->kind != Node::Kind::map) fail(sizes->place, "model.sizes: expected a map, such as {hidden: 64}");
    for (const auto& [name, node] : sizes->fields) {
      if (name == "tokens" || name == "sample")
        fail(node.key_place, fmt::format("model.sizes: {} has a meaning of its own; choose another name", name));
      if (node.kind != Node::Kind::scalar) fail(node.place, fmt::format("model.sizes.{}: expected a formula", name));
      lists.sizes.emplace_back(name, node.scalar);
    }
  }
  const SizeValues sizes = lists.values(tokens);
  const Node& layers = fields.required_child("layers");
  if (layers.kind != Node::Kind::list || layers.items.empty())
    fail(layers.place,
         "model.layers: expected a list, such as [{layer: head, operators: [cross_entropy: {classes: 2}]}]");
  std::size_t operators = 0;
  for (const Node& item : layers.items) {
    ListedLayer layer = read_listed_layer(item, sizes);
    check_sizes(layer.operators, sizes);
    for (const auto& [key, formula] : {std::pair{"width", layer.width}, {"rows", layer.rows}})
      if (!formula.empty()) size_value(formula, sizes, layer.place, fmt::format("model.layers: {}", key));
    operators += count_of(layer.operators) * static_cast<std::size_t>(std::max<std::int64_t>(1, layer.repeat));
    lists.layers.push_back(std::move(layer));
  }
  if (operators > kMostListed)
    fail(layers.place, fmt::format("model.layers: {} operators; at most {}", operators, kMostListed));
  return lists;
}

std::optional<Node> operator_document(const Node& config) {
  for (const OperatorConfig& kind : operator_configs()) {
    const Node* type = config.find(kind.key);
    if (!type || type->scalar != kind.type) continue;
    Node entry = Catalog().resolve("network", Node::scalar_node(kind.network, type->place));
    Node& sizes = *entry.find("sizes");
    Fields fields(config, "model");
    fields.has(kind.key);
    take_sizes(fields, kind.sizes, sizes);
    for (const auto& [key, value] : kind.fixed)
      if (fields.has(key) && lower_case(fields.text(key)) != value)
        fields.refuse(key, fields.text(key) + " is not modelled; expected " + value);
    for (const char* key : kind.ignored) fields.has(key);
    for (const char* key : {"_diffusers_version", "_name_or_path"}) fields.has(key);
    if (!kind.tower.empty() && fields.has("vision_config")) {
      Fields tower(*fields.child("vision_config"), "model.vision_config");
      take_sizes(tower, kind.tower, sizes);
      for (const char* key :
           {"model_type", "in_chans", "in_channels", "out_hidden_size", "patch_size", "spatial_merge_size",
            "spatial_patch_size", "window_size", "fullatt_block_indexes", "tokens_per_second", "temporal_patch_size",
            "hidden_act", "torch_dtype", "initializer_range"})
        tower.has(key);
      tower.finish();
    }
    for (const char* key : {"name", "_source"})
      if (fields.has(key)) *entry.find(key) = *fields.child(key);
    fields.finish();
    return entry;
  }
  return std::nullopt;
}

}  // namespace trainyard
