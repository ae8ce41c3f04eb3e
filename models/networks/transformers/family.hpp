#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "models/networks/transformers/layout.hpp"
#include "models/reading/registry.hpp"

namespace trainyard::transformers {

/// What one `model_type` of Hugging Face means.
struct TransformerFamily {
  /// Reads the keys of its own, all but `model_type`, `name`, `_source` and those of `ignore_common_keys`.
  void (*read)(Fields&, TransformerConfig&);
  /// The layers, in order.
  std::vector<Layer> (*layers)(const TransformerLayout&);
};

Registry<TransformerFamily>& transformer_families();

struct RegisterTransformer {
  RegisterTransformer(const char* model_type, TransformerFamily family) {
    transformer_families().add(model_type, family);
  }
};

// Readers of config.json; every one throws UserError with the place.

/// Keys of Hugging Face's format that change neither shapes nor kernels.
void ignore_keys(Fields&, std::initializer_list<const char*> keys);
void ignore_common_keys(Fields&);  ///< those that every family may have
/// A size from 1 up to what a 32-bit index can address, so that products of two fit.
std::int64_t read_size(Fields&, const char* key);
std::int64_t read_size(Fields&, const char* key, std::int64_t fallback);
/// A required size with several names: whichever are given must agree.
std::int64_t read_size(Fields&, std::initializer_list<const char*> keys);
/// Every layer is laid out, so their number is bounded: a slip of the pen must not fill the memory.
std::int64_t read_layers(Fields&, std::initializer_list<const char*> keys);
double read_probability(Fields&, const char* key, double fallback);
std::string read_activation(Fields&, const char* key, const char* fallback);
/// Heads must divide the hidden size where `head_dim` is 0 (it is then filled in), and the key-value heads the heads.
void finish_heads(Fields&, TransformerConfig&, const char* heads_key = "num_attention_heads");
/// What LlamaConfig, MistralConfig, Qwen2Config and their kin call the same. `head_dim` is by default what it is before
/// the call, or where that is 0 the hidden size over the heads.
void read_llama_keys(Fields&, TransformerConfig&);
/// A token has at most as many experts as there are.
void check_experts(Fields&, const TransformerConfig&);
/// n_group and topk_group; how many where they are not given.
void read_expert_groups(Fields&, TransformerConfig&, std::int64_t groups = 1, std::int64_t groups_per_token = 1);
/// `layer_types`, a list of "full_attention" and others: full_attention_every, where every N-th is full. Without the
/// list: `fallback`. Throws UserError for another order.
std::int64_t read_layer_types(Fields&, std::int64_t layers, std::int64_t fallback);
/// Refuses a window in some layers only, which Qwen's configs can ask for.
void refuse_partial_window(Fields&);

}  // namespace trainyard::transformers
