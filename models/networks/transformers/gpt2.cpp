// GPT-2 (Radford et al. 2019), and GPT-3 (Brown et al. 2020) with dense attention in every layer.
#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

/// Defaults are those of transformers.GPT2Config.
void read_gpt2(Fields& f, TransformerConfig& c) {
  c.vocab_size = read_size(f, "vocab_size");
  c.num_hidden_layers = read_layers(f, {"n_layer", "num_hidden_layers"});
  c.hidden_size = read_size(f, {"n_embd", "hidden_size"});
  c.num_attention_heads = read_size(f, {"n_head", "num_attention_heads"});
  c.num_key_value_heads = c.num_attention_heads;
  c.max_position_embeddings = read_size(f, {"n_positions", "n_ctx", "max_position_embeddings"});
  c.intermediate_size = read_size(f, "n_inner", 4 * c.hidden_size);
  c.activation = read_activation(f, "activation_function", "gelu_new");
  c.fused_qkv = c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.embedding_dropout = read_probability(f, "embd_pdrop", 0.1);
  c.attention_dropout = read_probability(f, "attn_pdrop", 0.1);
  c.residual_dropout = read_probability(f, "resid_pdrop", 0.1);
  refuse_true(f, "add_cross_attention", "cross-attention is");
  ignore_keys(f, {"layer_norm_epsilon", "n_special", "predict_special_tokens", "reorder_and_upcast_attn",
                  "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "summary_activation",
                  "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"});
  finish_heads(f, c, f.has("n_head") ? "n_head" : "num_attention_heads");
}

const RegisterTransformer registered_gpt2{"gpt2", {read_gpt2, decoder_layers}};

}  // namespace
}  // namespace trainyard::transformers
