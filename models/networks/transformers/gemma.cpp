// Gemma 2 and 3 (Gemma Team 2024, 2025): norms before and after each branch, windows in most layers. Arithmetic that
// needs no further reads or writes (soft caps of scores and logits, the embedding's scale) is left out.
#include "models/networks/transformers/family.hpp"

namespace trainyard::transformers {
namespace {

void read_gemma(Fields& f, TransformerConfig& c) {
  c.head_dim = 256;
  read_llama_keys(f, c);
  c.activation = read_activation(f, "hidden_activation", "gelu_pytorch_tanh");
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.norm_place = NormPlace::both;
  c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
  ignore_keys(f, {"attn_logit_softcapping", "cache_implementation", "final_logit_softcapping", "query_pre_attn_scalar",
                  "rope_local_base_freq", "use_bidirectional_attention"});
}

void read_gemma2(Fields& f, TransformerConfig& c) {
  read_gemma(f, c);
  c.sliding_window = read_size(f, "sliding_window", 4096);
  c.full_attention_every = read_layer_types(f, c.num_hidden_layers, 2);
}

void read_gemma3(Fields& f, TransformerConfig& c) {
  read_gemma(f, c);
  c.head_norms = HeadNorms::one_a_head;
  c.sliding_window = read_size(f, "sliding_window", 4096);
  const std::int64_t pattern = read_size(f, "sliding_window_pattern", read_size(f, "_sliding_window_pattern", 6));
  c.full_attention_every = read_layer_types(f, c.num_hidden_layers, pattern);
}

const RegisterTransformer registered_gemma2{"gemma2", {read_gemma2, decoder_layers}};
const RegisterTransformer registered_gemma3{"gemma3_text", {read_gemma3, decoder_layers}};

}  // namespace
}  // namespace trainyard::transformers
