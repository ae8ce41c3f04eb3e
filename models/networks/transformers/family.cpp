// Keys of Hugging Face's config.json that its families have in common.
#include "models/networks/transformers/family.hpp"

#include <fmt/format.h>

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
  return f.integer_within<std::int64_t>(key, 1, std::numeric_limits<std::int32_t>::max());
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
      f.refuse(key, fmt::format("{}, but {}, the same size, is {}", size, first, value));
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
  fail(f.place_of(stated_key), fmt::format("{}: {} layers; at most {}", f.what(), layers, most));
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
      fail((*types)[i].place, f.path("layer_types") + ": expected full attention in every N-th layer");
  }
  if (static_cast<std::int64_t>(types->size()) != layers)
    f.refuse("layer_types", fmt::format("{} of {} layers", types->size(), layers));
  return every;
}

void refuse_true(Fields& f, const char* key, const char* what) {
  if (f.boolean(key, false)) f.refuse(key, fmt::format("{} not modelled; expected false", what));
}

double read_probability(Fields& f, const char* key, double fallback) { return f.number(key, 0, 1, fallback); }

std::string read_activation(Fields& f, const char* key, const char* fallback) {
  return f.choice(key, kActivations, fallback);
}

void finish_heads(Fields& f, TransformerConfig& c, const char* heads_key) {
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fail(f.place_of("num_key_value_heads"),
         fmt::format("{}: num_key_value_heads {} does not divide {} attention heads; nearest: {}", f.what(),
                     c.num_key_value_heads, c.num_attention_heads,
                     nearest_divisors(c.num_attention_heads, c.num_key_value_heads)));
  if (c.head_dim != 0) return;
  if (c.hidden_size % c.num_attention_heads != 0)
    fail(f.place_of(heads_key),
         fmt::format("{}: hidden size {} is not a multiple of {} attention heads; nearest: {}", f.what(), c.hidden_size,
                     c.num_attention_heads, nearest_multiples(c.num_attention_heads, c.hidden_size)));
  c.head_dim = c.hidden_size / c.num_attention_heads;
}

}  // namespace trainyard::transformers
