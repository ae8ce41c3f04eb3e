// Hugging Face's configs of networks that the catalog writes as operators.
#include <utility>
#include <vector>

#include "models/networks/transformers/operator_lists.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {
namespace {

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
