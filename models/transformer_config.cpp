// Hugging Face's config.json.
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "models/transformer.hpp"

namespace trainyard {
namespace {

const std::vector<std::string> kModelTypes = {"gpt2", "llama", "mistral", "qwen2"};
const std::vector<std::string> kActivations = {
    "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu", "swish", "tanh"};

/// Keys of Hugging Face's format that change neither shapes nor kernels.
void ignore(Fields& f, std::initializer_list<const char*> keys) {
  for (const char* key : keys) f.has(key);
}

void ignore_common(Fields& f) {
  ignore(f, {"_name_or_path", "architectures", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id",
             "initializer_range", "output_past", "pretraining_tp", "task_specific_params", "torch_dtype", "dtype",
             "transformers_version", "use_cache"});
}

/// A size from 1 up to what a 32-bit index can address, so that products of two fit.
std::int64_t size_of(Fields& f, const char* key) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const std::int64_t value = f.integer(key, 1);
  if (value > most)
    fail(f.place_of(key),
         f.what() + "." + key + ": " + std::to_string(value) + " is too large; the most is " + std::to_string(most));
  return value;
}

/// Every layer is laid out: a slip of the pen must not fill the memory.
void check_layers(const Fields& f, std::string_view key, std::int64_t layers) {
  constexpr std::int64_t most = 10000;
  if (layers > most)
    fail(f.place_of(key), f.what() + ": " + std::to_string(layers) + " layers; at most " + std::to_string(most));
}

/// A required integer with several names: whichever are given must agree.
std::int64_t integer_of(Fields& f, std::initializer_list<const char*> keys) {
  const char* first = nullptr;
  std::int64_t value = 0;
  for (const char* key : keys) {
    if (!f.has(key)) continue;
    const std::int64_t here = size_of(f, key);
    if (first != nullptr && here != value)
      fail(f.place_of(key), f.what() + ": " + key + " is " + std::to_string(here) + " but " + first +
                                ", the same thing, is " + std::to_string(value));
    first = key;
    value = here;
  }
  return first != nullptr ? value : size_of(f, *keys.begin());  // throws: none is given
}

std::int64_t integer_or(Fields& f, const char* key, std::int64_t fallback) {
  return f.has(key) ? size_of(f, key) : fallback;
}

double probability(Fields& f, const char* key, double fallback) { return f.number(key, 0, 1, fallback); }

/// Defaults are those of transformers.GPT2Config.
void read_gpt2(Fields& f, TransformerConfig& c) {
  c.num_hidden_layers = integer_of(f, {"n_layer", "num_hidden_layers"});
  c.hidden_size = integer_of(f, {"n_embd", "hidden_size"});
  c.num_attention_heads = integer_of(f, {"n_head", "num_attention_heads"});
  c.num_key_value_heads = c.num_attention_heads;
  c.max_position_embeddings = integer_of(f, {"n_positions", "n_ctx", "max_position_embeddings"});
  c.intermediate_size = integer_or(f, "n_inner", 4 * c.hidden_size);
  c.activation = f.choice("activation_function", kActivations, "gelu_new");
  c.position_embedding = PositionEmbedding::learned;
  c.norm = Norm::layer_norm;
  c.fused_qkv = c.qkv_bias = c.attention_output_bias = c.mlp_bias = true;
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", true);
  c.embedding_dropout = probability(f, "embd_pdrop", 0.1);
  c.attention_dropout = probability(f, "attn_pdrop", 0.1);
  c.residual_dropout = probability(f, "resid_pdrop", 0.1);
  if (f.boolean("add_cross_attention", false))
    fail(f.place_of("add_cross_attention"), f.what() + ": cross-attention is not modelled; expected false");
  ignore(f, {"layer_norm_epsilon", "n_special", "predict_special_tokens", "reorder_and_upcast_attn",
             "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "summary_activation", "summary_first_dropout",
             "summary_proj_to_labels", "summary_type", "summary_use_proj"});
}

/// Llama and its kin; defaults are those of LlamaConfig, MistralConfig and Qwen2Config where they are the same kernels.
void read_llama(Fields& f, TransformerConfig& c) {
  c.num_hidden_layers = integer_of(f, {"num_hidden_layers"});
  c.hidden_size = integer_of(f, {"hidden_size"});
  c.num_attention_heads = integer_of(f, {"num_attention_heads"});
  c.num_key_value_heads = integer_or(f, "num_key_value_heads", c.num_attention_heads);
  c.head_dim = integer_or(f, "head_dim", 0);
  c.intermediate_size = integer_of(f, {"intermediate_size"});
  c.max_position_embeddings = integer_of(f, {"max_position_embeddings"});
  c.activation = f.choice("hidden_act", kActivations, "silu");
  c.position_embedding = PositionEmbedding::rotary;
  c.norm = Norm::rms_norm;
  c.gated_mlp = true;
  c.tie_word_embeddings = f.boolean("tie_word_embeddings", false);
  c.attention_dropout = probability(f, "attention_dropout", 0);
  if (c.model_type == "llama") {
    c.qkv_bias = c.attention_output_bias = f.boolean("attention_bias", false);
    c.mlp_bias = f.boolean("mlp_bias", false);
  } else if (c.model_type == "mistral") {
    c.sliding_window = integer_or(f, "sliding_window", 0);
  } else {
    c.qkv_bias = true;
    if (f.boolean("use_sliding_window", false))
      fail(f.place_of("use_sliding_window"),
           f.what() + ": a sliding window in some layers only is not modelled; expected false");
    ignore(f, {"sliding_window", "max_window_layers", "layer_types", "use_mrope"});
  }
  ignore(f, {"rms_norm_eps", "rope_scaling", "rope_theta", "rope_parameters"});
}

/// Fills in the default head size and checks how heads divide.
void finish_heads(Fields& f, TransformerConfig& c) {
  const std::string heads = std::to_string(c.num_attention_heads) + " attention heads";
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fail(f.place_of("num_key_value_heads"),
         f.what() + ": num_key_value_heads " + std::to_string(c.num_key_value_heads) + " does not divide " + heads);
  if (c.head_dim != 0) return;
  if (c.hidden_size % c.num_attention_heads != 0)
    fail(f.place_of(f.has("n_head") ? "n_head" : "num_attention_heads"),
         f.what() + ": hidden size " + std::to_string(c.hidden_size) + " is not a multiple of " + heads);
  c.head_dim = c.hidden_size / c.num_attention_heads;
}

}  // namespace

TransformerConfig read_transformer(const Node& node) {
  Fields f(node, "model");
  TransformerConfig c;
  c.place = node.place;
  if (!f.has("model_type")) fail(c.place, "model: missing key \"model_type\"" + hint("", kModelTypes));
  c.model_type = f.choice("model_type", kModelTypes);
  c.name = f.text("name", f.text("_name_or_path", c.model_type));
  c.source = f.text("_source", "");
  c.vocab_size = size_of(f, "vocab_size");
  if (c.model_type == "gpt2")
    read_gpt2(f, c);
  else
    read_llama(f, c);
  ignore_common(f);
  f.finish();
  check_layers(f, f.has("n_layer") ? "n_layer" : "num_hidden_layers", c.num_hidden_layers);
  finish_heads(f, c);
  return c;
}

}  // namespace trainyard
