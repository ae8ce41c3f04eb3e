// Keys of Hugging Face's config.json that its families have in common.
#include "models/networks/transformers/family.hpp"

#include <limits>
#include <vector>

#include "models/reading/nearest.hpp"

namespace trainyard::transformers {
namespace {

const std::vector<std::string> kActivations = {
    "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu", "relu2", "silu", "swish", "tanh"};

}  // namespace

Registry<TransformerFamily>& transformer_families() {
  static Registry<TransformerFamily> families("model_type");
  return families;
}

void ignore_keys(Fields& f, std::initializer_list<const char*> keys) {
  for (const char* key : keys) f.has(key);
}

void ignore_common_keys(Fields& f) {
  ignore_keys(f, {"_name_or_path", "architectures", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id",
                  "initializer_range", "output_past", "pretraining_tp", "task_specific_params", "torch_dtype", "dtype",
                  "transformers_version", "use_cache"});
}

std::int64_t read_size(Fields& f, const char* key) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const std::int64_t value = f.integer(key, 1);
  if (value > most)
    fail(f.place_of(key),
         f.what() + "." + key + ": " + std::to_string(value) + " is too large; the most is " + std::to_string(most));
  return value;
}

std::int64_t read_size(Fields& f, const char* key, std::int64_t fallback) {
  return f.has(key) ? read_size(f, key) : fallback;
}

std::int64_t read_size(Fields& f, std::initializer_list<const char*> keys) {
  const char* first = nullptr;
  std::int64_t value = 0;
  for (const char* key : keys) {
    if (!f.has(key)) continue;
    const std::int64_t size = read_size(f, key);
    if (first != nullptr && size != value)
      fail(f.place_of(key), f.what() + ": " + key + " is " + std::to_string(size) + " but " + first +
                                ", the same thing, is " + std::to_string(value));
    first = key;
    value = size;
  }
  return first != nullptr ? value : read_size(f, *keys.begin());  // throws, because the key is missing
}

std::int64_t read_layers(Fields& f, std::initializer_list<const char*> keys) {
  constexpr std::int64_t most = 10000;
  const std::int64_t layers = read_size(f, keys);
  if (layers <= most) return layers;
  const char* stated_key = *keys.begin();
  for (const char* key : keys)
    if (f.has(key)) stated_key = key;
  fail(f.place_of(stated_key), f.what() + ": " + std::to_string(layers) + " layers; at most " + std::to_string(most));
}

std::int64_t read_layer_types(Fields& f, std::int64_t layers, std::int64_t fallback) {
  const std::vector<Node>* types = f.list("layer_types");
  if (!types) return fallback;
  std::int64_t every = 0;
  for (std::size_t i = 0; i < types->size(); ++i) {
    const bool full = (*types)[i].scalar == "full_attention";
    const auto number = static_cast<std::int64_t>(i) + 1;
    if (every == 0 && full) every = number;
    if (full != (every > 0 && number % every == 0))
      fail((*types)[i].place, f.what() + ": layer_types: expected full attention in every N-th layer");
  }
  if (static_cast<std::int64_t>(types->size()) != layers)
    fail(f.place_of("layer_types"),
         f.what() + ": layer_types: " + std::to_string(types->size()) + " of " + std::to_string(layers) + " layers");
  return every;
}

double read_probability(Fields& f, const char* key, double fallback) { return f.number(key, 0, 1, fallback); }

std::string read_activation(Fields& f, const char* key, const char* fallback) {
  return f.choice(key, kActivations, fallback);
}

void finish_heads(Fields& f, TransformerConfig& c, const char* heads_key) {
  const std::string heads = std::to_string(c.num_attention_heads) + " attention heads";
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fail(f.place_of("num_key_value_heads"),
         f.what() + ": num_key_value_heads " + std::to_string(c.num_key_value_heads) + " does not divide " + heads +
             "; nearest: " + nearest_divisors(c.num_attention_heads, c.num_key_value_heads));
  if (c.head_dim != 0) return;
  if (c.hidden_size % c.num_attention_heads != 0)
    fail(f.place_of(heads_key), f.what() + ": hidden size " + std::to_string(c.hidden_size) + " is not a multiple of " +
                                    heads + "; nearest: " + nearest_multiples(c.num_attention_heads, c.hidden_size));
  c.head_dim = c.hidden_size / c.num_attention_heads;
}

}  // namespace trainyard::transformers
