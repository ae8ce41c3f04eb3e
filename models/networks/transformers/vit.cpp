// Vision transformer (Dosovitskiy et al. 2021), with its classifier (Hugging Face's ViTForImageClassification).
#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// Defaults are those of transformers.ViTConfig.
void read_vit(Fields& f, TransformerConfig& c) {
  c.num_hidden_layers = read_layers(f, {"num_hidden_layers"});
  c.hidden_size = read_size(f, "hidden_size");
  c.num_attention_heads = read_size(f, "num_attention_heads");
  c.num_key_value_heads = c.num_attention_heads;
  c.intermediate_size = read_size(f, "intermediate_size");
  const std::int64_t image = read_size(f, "image_size", 224);
  c.patch_size = read_size(f, "patch_size", 16);
  c.num_channels = read_size(f, "num_channels", 3);
  if (image < c.patch_size || image > 65536)
    f.refuse("image_size",
             std::to_string(image) + "; expected from " + std::to_string(c.patch_size) + " (a patch) to 65536");
  const std::int64_t side = image / c.patch_size;  // pixels left over at the edge are ignored
  c.max_position_embeddings = side * side + 1;
  c.fixed_seq_length = true;
  const Node* labels = f.child("id2label");
  c.num_labels = read_size(f, "num_labels",
                           labels && !labels->fields.empty() ? static_cast<std::int64_t>(labels->fields.size()) : 2);
  c.activation = read_activation(f, "hidden_act", "gelu");
  c.causal = false;
  c.qkv_bias = f.boolean("qkv_bias", true);
  c.attention_output_bias = c.mlp_bias = true;
  c.embedding_dropout = c.residual_dropout = read_probability(f, "hidden_dropout_prob", 0);
  c.attention_dropout = read_probability(f, "attention_probs_dropout_prob", 0);
  ignore_keys(f, {"encoder_stride", "label2id", "layer_norm_eps", "pooler_act", "pooler_output_size", "problem_type"});
  finish_heads(f, c);
}

/// Patches do not overlap, so their convolution is a linear layer of pixels. The class token goes before them.
Layer vit_embedding(const TransformerLayout& l) {
  LayerBuilder b = l.builder("embedding");
  const double pixels = static_cast<double>(l.config.patch_size * l.config.patch_size * l.config.num_channels);
  b.set_rows(l.samples * (l.seq - 1));
  const Bytes patches = b.row_bytes(l.hidden());
  b.linear({.name = "patch_embedding", .in = pixels, .out = l.hidden(), .bias = true, .input_gradient = false});
  b.set_rows(l.rows());
  const Bytes tensor = b.row_bytes(l.hidden()), token = l.size() * l.hidden(), positions = token * l.seq;
  const int class_token = b.parameter("class_token", l.hidden());
  Operator concat;
  concat.forward.push_back(elementwise("class_token", patches + token + tensor, l.precision));
  concat.backward = {{elementwise("class_token.patch_grad", patches * 2, l.precision), {}},
                     {elementwise("class_token.backward", token * (l.samples + 1), l.precision), {class_token}}};
  concat.forward_live = patches + tensor;
  concat.backward_live = patches + tensor;
  b.add(std::move(concat));
  const int position = b.parameter("position_embedding", l.seq * l.hidden());
  Operator add;
  add.forward.push_back(elementwise("position_embedding", tensor * 2 + positions, l.precision));
  add.backward.push_back({elementwise("position_embedding.backward", tensor + positions, l.precision), {position}});
  add.forward_live = tensor * 2;
  add.backward_live = tensor;
  b.add(std::move(add));
  if (l.config.embedding_dropout > 0) b.dropout({.name = "embedding_dropout", .width = l.hidden()});
  return std::move(b).build(tensor);
}

Layer vit_head(const TransformerLayout& l) {
  LayerBuilder b = l.builder("head");
  const double labels = static_cast<double>(l.config.num_labels);
  b.norm(l.config.norm, "final_norm", l.hidden());
  select_rows(b, l, "first_token", l.samples);
  b.linear({.name = "classifier", .in = l.hidden(), .out = labels, .bias = true});
  b.cross_entropy(labels, l.options.fused_loss);
  return std::move(b).build(Bytes{});
}

std::vector<Layer> vit_layers(const TransformerLayout& l) {
  std::vector<Layer> layers{vit_embedding(l)};
  for (std::int64_t i = 0; i < l.config.num_hidden_layers; ++i) layers.push_back(dense_block(l, i));
  layers.push_back(vit_head(l));
  return layers;
}

const RegisterTransformer registered_vit{"vit", {read_vit, vit_layers}};

}  // namespace
}  // namespace trainyard::transformers
