#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "models/networks/transformers/layout.hpp"
#include "models/reading/registry.hpp"

namespace trainyard::transformers {

/// Implementation of one `model_type` of Hugging Face.
struct TransformerFamily {
  /// Reads the keys of the family: all except `model_type`, `name`, `_source` and those of `ignore_unused_keys`.
  void (*read)(Fields&, TransformerConfig&);
  /// Returns the layers in order.
  std::vector<Layer> (*layers)(const TransformerLayout&);
};

Registry<TransformerFamily>& transformer_families();

struct RegisterTransformer {
  RegisterTransformer(const char* model_type, TransformerFamily family) {
    transformer_families().add(model_type, family);
  }
};

// Readers of config.json. Each throws UserError with the place.

/// Keys of PretrainedConfig and of diffusers that change neither shapes nor kernels, at any depth of a config: those of
/// the library, of tokens, of generation, and of how a checkpoint is stored.
const std::vector<std::string>& free_config_keys();
/// Accepts those, and further keys of configs of a model type (models/catalog/unused-config-keys.json).
void ignore_unused_keys(Fields&, const std::string& model_type);
/// Reads a size from 1 to the largest 32-bit index, so that products of two sizes fit into 64 bits.
std::int64_t read_size(Fields&, const char* key);
std::int64_t read_size(Fields&, const char* key, std::int64_t fallback);
/// Reads a required size that has several names. If several are stated, they must be equal.
std::int64_t read_size(Fields&, std::initializer_list<const char*> keys);
/// Reads a number of layers. It is bounded, because every layer is built and a typing error must not fill the memory.
std::int64_t read_layers(Fields&, std::initializer_list<const char*> keys);
double read_probability(Fields&, const char* key, double fallback);           ///< refuses values outside 0 to 1
std::string read_activation(Fields&, const char* key, const char* fallback);  ///< refuses unknown names
/// Checks that the key-value heads divide the heads. If `head_dim` is 0, the heads must divide the hidden size, and the
/// quotient becomes `head_dim`.
void finish_heads(Fields&, TransformerConfig&, const char* heads_key = "num_attention_heads");
/// Reads the keys that LlamaConfig, MistralConfig, Qwen2Config and similar classes have in common. The default of
/// `head_dim` is its value before the call, or if that is 0 the hidden size divided by the heads. `vocab_size`,
/// `num_attention_heads`, `intermediate_size` and `max_position_embeddings` are required unless they have a value before the
/// call.
void read_llama_keys(Fields&, TransformerConfig&);
/// Reads the keys that GPT-2 and GPT-J have in common. `dropout`: the default of all probabilities to drop.
void read_gpt2_keys(Fields&, TransformerConfig&, double dropout);
/// Reads Llama's two keys of biases, and those of `read_llama_keys`.
void read_with_biases(Fields&, TransformerConfig&);
/// Reads the keys of DeepSeek's latent attention, and those of `read_llama_keys`.
void read_latent(Fields&, TransformerConfig&);
/// Reads the ranks and widths of latent attention.
void read_latent_sizes(Fields&, TransformerConfig&);
/// Reads experts as DeepSeek names them, after dense layers.
void read_routed_experts(Fields&, TransformerConfig&);
/// Reads the keys that Qwen's mixtures of experts have in common, and those of `read_llama_keys`.
void read_qwen_experts(Fields&, TransformerConfig&);
/// Reads Megatron's mtp_num_layers: the number of layers that predict further tokens. The default is 0, whatever the
/// config says of the checkpoint's layers (num_nextn_predict_layers), because most trainings leave them out.
void read_further_tokens(Fields&, TransformerConfig&);
/// Reads the keys of Mamba-2 as Bamba, Granite 4 and Falcon-H1 name them. `inner`: width of its values; 0: `mamba_expand`
/// times the hidden size.
void read_mamba_keys(Fields&, TransformerConfig&, std::int64_t inner = 0);
/// Checks that the groups of keys of a scan, which `key` states, divide its heads.
void check_groups(Fields&, const ScanConfig&, const char* key);
/// Checks that a token has at most as many experts as there are.
void check_experts(Fields&, const TransformerConfig&);
/// Reads n_group and topk_group. The arguments are the defaults.
void read_expert_groups(Fields&, TransformerConfig&, std::int64_t groups = 1, std::int64_t groups_per_token = 1);
/// Reads `layer_types`, a list of "full_attention" and others in which every N-th layer is full, and returns N. Without
/// the list it returns `fallback`. Throws UserError for another order.
std::int64_t read_layer_types(Fields&, std::int64_t layers, std::int64_t fallback);
/// Refuses `key: true`, which would change the layers. `what`: the reason, such as "biases of attention are".
void refuse_true(Fields&, const char* key, const char* what);
/// Refuses a window in only some layers, which Qwen's configs can have.
void refuse_partial_window(Fields&);

}  // namespace trainyard::transformers
