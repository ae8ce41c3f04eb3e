// Reads networks that are written as layers of operators.
// Hugging Face's configs of networks that the catalog writes as operators.
#include "models/networks/transformers/operator_lists.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "models/networks/transformers/operator_keys.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/formula.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostListed = 100000;  // operators with repetition; a typing error must not fill the memory

const Key kBranch{"operators",
                  "The operators of a residual's branch, or those that run while tables exchange vectors, for "
                  "example [rms_norm: {width: hidden}]."};

/// Reads `linear: {in: hidden, out: 64}`.
ListedOperator read_operator(const Node& item) {
  if (item.kind != Node::Kind::map || item.fields.size() != 1)
    fail(item.place, "model.layers: expected an operator, such as linear: {in: hidden, out: 64}");
  const OperatorKeys& keys = operator_keys(item.fields.front().first, item.fields.front().second.key_place);
  const Node& node = *Fields(item, "model.layers.operators").child({item.fields.front().first, keys.meaning});
  ListedOperator op;
  op.word = keys.word;
  op.place = node.place;
  Fields fields(node, "model.layers: " + op.word);
  op.name = fields.text(kOperatorName, op.word);
  for (const Key& key : keys.sizes) op.sizes[std::string(key.name)] = fields.formula(key);
  const auto read_further = [&](const Key& key) {
    if (std::string formula = fields.formula(key, ""); !formula.empty()) op.sizes[std::string(key.name)] = formula;
  };
  const auto read_flag = [&](const Key& key) {
    if (fields.boolean(key, false)) op.flags.emplace(key.name);
  };
  for (const Key& key : keys.further) read_further(key);
  for (const Key& key : keys.flags) read_flag(key);
  read_further(kOperatorRows);
  read_flag(kOperatorEveryRank);
  for (const OperatorWord& word : keys.words)
    if (const std::string chosen =
            word.is_required ? fields.choice(word.key, word.words) : fields.choice(word.key, word.words, "");
        !chosen.empty())
      op.words[std::string(word.key.name)] = chosen;
  for (const Key& name : keys.names)
    if (const std::string text = fields.text(name, ""); !text.empty()) op.words[std::string(name.name)] = text;
  if (op.words.contains("split")) op.split = op.words.at("split");
  if (const bool is_residual = op.word == "residual"; is_residual || (op.word == "tables" && fields.has(kBranch))) {
    const Node& branch = fields.required_child(kBranch);
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

/// Reads how often a layer or a group of layers follows itself; 0 without the key.
std::int64_t read_repeat(Fields& fields, const SizeValues& sizes) {
  const Key key{"repeat",
                "Number of equal layers in a row, the blocks, or of equal groups of layers, for example 24. "
                "Default: a single layer, which plan.recompute leaves alone."};
  const std::string formula = fields.formula(key, "");
  if (formula.empty()) return 0;
  constexpr double most = 10000;
  const double repeat = size_value(formula, sizes, fields.place_of("repeat"), "model.layers: repeat");
  if (repeat != std::floor(repeat) || repeat > most)
    fields.refuse("repeat", fmt::format("{:.10g}; expected a whole number from 1 to {:.0f}", repeat, most));
  return static_cast<std::int64_t>(repeat);
}

ListedLayer read_listed_layer(const Node& item, const SizeValues& sizes) {
  Fields fields(item, "model.layers");
  ListedLayer layer;
  layer.place = item.place;
  layer.name = fields.text({"layer", "Name of a layer, for example block. The network can be cut between layers."});
  layer.repeat = read_repeat(fields, sizes);
  layer.width = fields.formula(
      {"width", "Elements in a row of a layer's output, for example hidden. Default: the layer ends with the loss."},
      "");
  layer.rows =
      fields.formula({"rows", "Rows of a sample of a layer's output, for example sample. Default: tokens."}, "tokens");
  const Node& operators = fields.required_child(
      {"operators",
       "The operators of a layer in their order, for example [rms_norm: {width: hidden}]. Each reads what "
       "the one before it gives."});
  if (operators.kind != Node::Kind::list || operators.items.empty())
    fail(operators.place, "model.layers: expected a list of operators");
  for (const Node& inner : operators.items) layer.operators.push_back(read_operator(inner));
  fields.finish();
  return layer;
}

/// Returns the names in the order of a group's layers: those of the list, or the letters of a word.
std::vector<std::string> read_pattern(const Node& pattern) {
  std::vector<std::string> names;
  if (pattern.kind == Node::Kind::list) {
    for (const Node& item : pattern.items) names.push_back(item.scalar);
  } else if (pattern.kind == Node::Kind::scalar) {
    for (const char letter : pattern.scalar) names.emplace_back(1, letter);
  }
  if (names.empty()) fail(pattern.place, "model.layers: pattern: expected names of layers, such as [mamba, attention]");
  return names;
}

/// Reads a layer, or a group of layers in the order of its pattern, which is repeated.
void read_layers(const Node& item, const SizeValues& sizes, std::vector<ListedLayer>& layers) {
  if (item.kind != Node::Kind::map || item.find("layer") || !item.find("layers"))
    return layers.push_back(read_listed_layer(item, sizes));
  Fields fields(item, "model.layers");
  const Node& inner = fields.required_child(
      {"layers", "Layers of a group, which are blocks, for example [{layer: M, operators: [move: {in: 1, out: 1}]}]."});
  std::vector<ListedLayer> group;
  std::vector<std::string> names;
  if (inner.kind == Node::Kind::list)
    for (const Node& layer : inner.items) {
      group.push_back(read_listed_layer(layer, sizes));
      group.back().repeat = std::max<std::int64_t>(1, group.back().repeat);
      names.push_back(group.back().name);
    }
  if (group.empty()) fail(inner.place, "model.layers: expected a list of layers");
  const Node* pattern = fields.child(
      {"pattern",
       "Order of a group's layers: their names, for example [M, M, A] or MMA if names are letters. Default: "
       "each layer once, in the order of the group."});
  const std::vector<std::string> order = pattern ? read_pattern(*pattern) : names;
  const std::int64_t repeat = std::max<std::int64_t>(1, read_repeat(fields, sizes));
  if (static_cast<std::size_t>(repeat) * order.size() > kMostListed)
    fields.refuse("repeat",
                  fmt::format("{} layers; at most {}", repeat * static_cast<std::int64_t>(order.size()), kMostListed));
  for (std::int64_t i = 0; i < repeat; ++i)
    for (const std::string& name : order) {
      const auto layer = std::ranges::find(group, name, &ListedLayer::name);
      if (layer == group.end())
        fail(pattern->place,
             fmt::format("model.layers: pattern: no layer \"{}\" in the group{}", name, hint(name, names)));
      layers.push_back(*layer);
    }
  fields.finish();
}

/// Checks that products with the weight of an embedding have its sizes. Pipelines sum the two gradients of a table that the
/// first stage has at its beginning and the last stage at its end. `first`: the first operator of the network.
void check_tied(const std::vector<ListedOperator>& operators, const ListedOperator& first, bool is_last_layer,
                const SizeValues& sizes) {
  for (const ListedOperator& op : operators) {
    check_tied(op.operators, first, is_last_layer, sizes);
    const auto tied = op.words.find("tied");
    if (tied == op.words.end()) continue;
    if (!is_last_layer)
      fail(op.place, fmt::format("model.layers: {}: tied: only products in the last layer can be tied", op.name));
    if (first.word != "embedding" || first.name != tied->second)
      fail(op.place, fmt::format("model.layers: {}: tied: no embedding \"{}\" begins the first layer{}", op.name,
                                 tied->second, first.word == "embedding" ? "; nearest: " + first.name : ""));
    for (const auto& [mine, other] : {std::pair{"in", "width"}, {"out", "entries"}}) {
      const auto value = [&](const ListedOperator& of, const char* key) {
        return size_value(of.sizes.find(key)->second, sizes, of.place, std::string("model.layers: ") + key);
      };
      if (const double a = value(op, mine), b = value(first, other); a != b)
        fail(op.place, fmt::format("model.layers: {}: {} is {:.10g}, and the {} of the embedding to which it is tied "
                                   "is {:.10g}; expected equal sizes",
                                   op.name, mine, a, other, b));
    }
  }
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
       "QwenImageTransformer2DModel",
       "qwen-image",
       {{"num_attention_heads", "heads"},
        {"attention_head_dim", "head"},
        {"num_layers", "blocks"},
        {"in_channels", "patch"},
        {"joint_attention_dim", "text_width"}},
       {{"guidance_embeds", "false"}, {"patch_size", "2"}, {"out_channels", "16"}},
       {"axes_dims_rope", "pooled_projection_dim"},
       {}},
      {"_class_name",
       "PixArtTransformer2DModel",
       "pixart-sigma-xl-2",
       {{"num_attention_heads", "heads"},
        {"attention_head_dim", "head"},
        {"num_layers", "blocks"},
        {"caption_channels", "text_width"}},
       {{"in_channels", "4"},
        {"out_channels", "8"},
        {"patch_size", "2"},
        {"use_additional_conditions", "false"},
        {"attention_bias", "true"}},
       {"activation_fn", "attention_type", "cross_attention_dim", "dropout", "interpolation_scale",
        "norm_elementwise_affine", "norm_eps", "norm_num_groups", "norm_type", "num_embeds_ada_norm", "sample_size",
        "upcast_attention"},
       {}},
      {"_class_name",
       "CogVideoXTransformer3DModel",
       "cogvideox-5b",
       {{"num_attention_heads", "heads"},
        {"attention_head_dim", "head"},
        {"num_layers", "blocks"},
        {"text_embed_dim", "text_width"},
        {"max_text_seq_length", "text"},
        {"time_embed_dim", "time"}},
       {{"in_channels", "16"},
        {"out_channels", "16"},
        {"patch_size", "2"},
        {"attention_bias", "true"},
        {"norm_elementwise_affine", "true"},
        {"use_rotary_positional_embeddings", "true"},
        {"use_learned_positional_embeddings", "false"}},
       {"activation_fn", "dropout", "flip_sin_to_cos", "freq_shift", "norm_eps", "sample_frames", "sample_height",
        "sample_width", "spatial_interpolation_scale", "temporal_compression_ratio", "temporal_interpolation_scale",
        "timestep_activation_fn"},
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
  if (const Node* sizes = fields.child(
          {"sizes",
           "Named sizes of a network of operators, formulas of numbers, of earlier sizes, of tokens and of "
           "sample (1), for example {hidden: 512, inner: 4 * hidden}. Default: none."})) {
    if (sizes->kind != Node::Kind::map) fail(sizes->place, "model.sizes: expected a map, such as {hidden: 64}");
    for (const auto& [name, node] : sizes->fields) {
      if (name == "tokens" || name == "sample")
        fail(node.key_place, fmt::format("model.sizes: {} has a meaning of its own; choose another name", name));
      if (node.kind != Node::Kind::scalar) fail(node.place, fmt::format("model.sizes.{}: expected a formula", name));
      lists.sizes.emplace_back(name, node.scalar);
    }
  }
  const SizeValues sizes = lists.values(tokens);
  const Node& layers = fields.required_child(
      {"layers",
       "Layers of a network of operators (model_type: operators), and groups of layers, for example [{layer: "
       "head, operators: [cross_entropy: {classes: 2}]}]."});
  if (layers.kind != Node::Kind::list || layers.items.empty())
    fail(layers.place,
         "model.layers: expected a list, such as [{layer: head, operators: [cross_entropy: {classes: 2}]}]");
  for (const Node& item : layers.items) read_layers(item, sizes, lists.layers);
  std::size_t operators = 0;
  for (const ListedLayer& layer : lists.layers) {
    check_sizes(layer.operators, sizes);
    for (const auto& [key, formula] : {std::pair{"width", layer.width}, {"rows", layer.rows}})
      if (!formula.empty()) size_value(formula, sizes, layer.place, fmt::format("model.layers: {}", key));
    operators += count_of(layer.operators) * static_cast<std::size_t>(std::max<std::int64_t>(1, layer.repeat));
    if (operators > kMostListed)
      fail(layers.place, fmt::format("model.layers: {} operators; at most {}", operators, kMostListed));
    check_tied(layer.operators, lists.layers.front().operators.front(), &layer == &lists.layers.back(), sizes);
  }
  check_widths(lists, sizes);
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
