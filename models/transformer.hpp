#pragma once
#include <cstdint>
#include <string>

#include "models/document.hpp"
#include "models/network.hpp"

namespace trainyard {

enum class PositionEmbedding : std::uint8_t { learned, rotary };

/// A decoder-only transformer, in Hugging Face's words.
struct TransformerConfig {
  std::string name, source;
  std::string model_type;
  Place place;  ///< of the document it was read from
  std::int64_t num_hidden_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;
  std::int64_t sliding_window = 0;  ///< positions a token attends to, itself included; 0: all before it
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  Norm norm = Norm::layer_norm;
  std::string activation;  ///< of the feed-forward part
  bool gated_mlp = false;  ///< activation(gate(x)) · up(x)
  bool fused_qkv = false;  ///< one weight for query, key and value
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  double embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0;  ///< probabilities; 0: no such kernel
};

/// Reads what Hugging Face writes as config.json. `model_type` decides which keys are known: gpt2, llama, mistral, qwen2.
/// Keys of the format that change no cost are ignored, any other unread key is refused; `_source` is kept.
/// Throws UserError with the place.
TransformerConfig read_transformer(const Node&);

/// What the framework's kernels fuse.
struct TransformerOptions {
  /// One kernel that never writes the s × s scores (Dao et al. 2022); false: they are written, in the precision of the
  /// network, by separate kernels, and all s² of them are computed.
  bool flash_attention = true;
  /// One kernel that reads the logits and leaves their gradient in place; false: logits are copied to fp32.
  bool fused_loss = false;
  /// silu(gate) · up in one kernel; false: two, and silu(gate) is kept for the backward pass.
  bool fused_gated_activation = false;
};

/// The kernels of one micro-batch, and what they keep, as PyTorch runs them eagerly: layers embedding, one a block, head
/// (final norm, output projection, loss). Norms, rotary embedding and activation are one kernel each (torch.nn.LayerNorm,
/// RMSNorm, GELU; Hugging Face's own Python versions of some are several). Weights, activations and products are in
/// `precision`.
/// Kept tensors follow Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", §4.1
/// (34·s·b·h + 5·a·s²·b bytes a layer in 16 bits, with dropout and without flash attention), tensor by tensor; besides
/// them the norms keep fp32 statistics of each row, and flash attention an fp32 log-sum-exp a row and head (4·a·s·b).
/// Flash attention is causal: 4·b·a·d·s²/2 FLOPs forward and 2.5 times that backward (Dao 2023, §4.1), all other
/// matrix products 2·m·n·k.
/// Throws UserError for sizes below 1, for a precision that is not modelled, and for more tokens than learned positions.
Network transformer_network(const TransformerConfig&, std::int64_t micro_batch_size, std::int64_t seq_length, Precision,
                            const TransformerOptions& = {});

}  // namespace trainyard
