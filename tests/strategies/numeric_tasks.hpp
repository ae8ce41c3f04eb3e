#pragma once
#include <string>

#include "models/reading/document.hpp"
#include "strategies/values/layers/training_task.hpp"

namespace trainyard {

/// Returns the task of a transformer with this config. The networks below are small enough to be computed many times,
/// and have all features of their families.
inline TrainingTask transformer_task(const std::string& config, int micro_batch_size, int seq_length) {
  TrainingTask task;
  task.model = read_transformer(parse_document(config, "config.json"));
  task.micro_batch_size = micro_batch_size;
  task.seq_length = seq_length;
  task.seed = 7;
  return task;
}

/// GPT-2: LayerNorm with bias, learned positions, GELU, one weight for queries, keys and values, tied head.
inline TrainingTask small_gpt2(bool tied = true, int micro_batch_size = 2, int seq_length = 8) {
  return transformer_task(R"({"model_type": "gpt2", "vocab_size": 30, "n_layer": 2, "n_embd": 16, "n_head": 4,
    "n_positions": 8, "embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0, "tie_word_embeddings": )" +
                              std::string(tied ? "true}" : "false}"),
                          micro_batch_size, seq_length);
}

/// Llama: RMSNorm, rotary positions, gated SiLU, half as many heads of keys and values, untied head.
inline TrainingTask small_llama(int micro_batch_size = 2, int seq_length = 8) {
  return transformer_task(R"({"model_type": "llama", "vocab_size": 32, "num_hidden_layers": 2, "hidden_size": 16,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 16})",
                          micro_batch_size, seq_length);
}

/// Mixtral: Llama with a sliding window and four experts, two for each token.
inline TrainingTask small_mixtral(int micro_batch_size = 2, int seq_length = 8) {
  return transformer_task(R"({"model_type": "mixtral", "vocab_size": 32, "num_hidden_layers": 2, "hidden_size": 16,
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 12, "max_position_embeddings": 16,
    "sliding_window": 5, "num_local_experts": 4, "num_experts_per_tok": 2})",
                          micro_batch_size, seq_length);
}

inline TrainingTask small_mlp(MlpLoss loss = MlpLoss::mean_squared_error, int micro_batch_size = 3) {
  TrainingTask task;
  task.model = MlpShape{{6, 8, 12, 4, 8}, loss};
  task.micro_batch_size = micro_batch_size;
  task.seed = 11;
  return task;
}

}  // namespace trainyard
