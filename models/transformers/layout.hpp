#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/transformer.hpp"

/// What transformers are laid out with; `models/transformer.hpp` is for everyone else.
namespace trainyard::transformers {

/// Sizes of one micro-batch as doubles, and what to lay out.
struct TransformerLayout {
  const TransformerConfig& config;
  const TransformerOptions& options;
  Precision precision;
  double samples = 1;
  double seq = 1;          ///< tokens a sample; of the encoder where there is a decoder too
  double decoder_seq = 0;  ///< 0: no encoder-decoder

  double rows() const { return samples * seq; }
  double hidden() const { return static_cast<double>(config.hidden_size); }
  double heads() const { return static_cast<double>(config.num_attention_heads); }
  double query() const { return heads() * static_cast<double>(config.head_dim); }
  double key() const { return static_cast<double>(config.num_key_value_heads * config.head_dim); }
  double ffn() const { return static_cast<double>(config.intermediate_size); }
  double vocab() const { return static_cast<double>(config.vocab_size); }
  Bytes size() const { return element_size(precision); }  ///< of an element
  LayerBuilder builder(std::string name) const { return {std::move(name), rows(), precision}; }
};

/// One use of attention in a layer. Widths are those of one head; lengths are tokens a sample.
struct AttentionShape {
  std::string prefix = {};  ///< of the names of kernels and tensors
  double heads = 0, key_value_heads = 0;
  double query_width = 0, value_width = 0;  ///< a key is as wide as a query
  double queries = 0, keys = 0;
  double window = 0;  ///< positions that a token attends to, itself included; 0: all
  bool causal = false;
  bool scaled = true;          ///< scores are divided by √width
  bool position_bias = false;  ///< a learned bias of every head, query and key is added to the scores (T5)

  /// Pairs of a query and a key that one head computes: causal, half the square or a band of it; else all.
  double pairs() const;
};
AttentionShape self_attention_shape(const TransformerLayout&);

/// softmax(q·kᵀ)·v of queries, keys and values that are there: in one kernel or in several, as the options say.
void attention(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// y = x·W, `shape`'s values back to the hidden size.
void output_projection(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// Projections, rotary embedding and attention of queries, keys and values of the same tokens.
void self_attention(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, §2.1): queries, and keys with values, are projected
/// through a low rank; the rotary part of a key is one for all heads.
void latent_attention(LayerBuilder&, const TransformerLayout&);

/// A residual branch: x + f(norm(x)), or norm(x + f(x)) where norms come after. Between the two calls stands f.
void begin_branch(LayerBuilder&, const TransformerLayout&, const std::string& name);
void end_branch(LayerBuilder&, const TransformerLayout&, const std::string& name);

struct FeedForward {
  std::string prefix = {};  ///< of the names of kernels and tensors
  double width = 0;         ///< inner
  double experts = 1;       ///< as in `LayerBuilder::Linear`
  double active_share = 1;
  bool keeps_input = true;
  bool shares_fork_gradient = false;  ///< of the output
};
/// Two linear layers with the activation between, or three where it is gated.
void feed_forward(LayerBuilder&, const TransformerLayout&, const FeedForward&);
/// One kernel that reads and writes `width` a row and keeps its input (or output).
void activation(LayerBuilder&, Precision, const std::string& name, double width);
/// Router, permutation, grouped expert GEMMs, combination; shared experts. See `transformer_network`.
void mixture_of_experts(LayerBuilder&, const TransformerLayout&);
/// Experts, or in the first layers a dense feed-forward part, with norm and residual.
void experts_branch(LayerBuilder&, const TransformerLayout&, std::int64_t index);

void attention_branch(LayerBuilder&, const TransformerLayout&);
void feed_forward_branch(LayerBuilder&, const TransformerLayout&);

/// The first token of each sample; what follows has one row a sample.
void first_token(LayerBuilder&, const TransformerLayout&);
/// Adds one row of `seq` positions to every sample.
void add_positions(LayerBuilder&, const TransformerLayout&, const std::string& name, Bytes positions, int terms);

// Layers.
Layer embedding_layer(const TransformerLayout&);
Layer dense_block(const TransformerLayout&, std::int64_t index);
Layer language_head(const TransformerLayout&);  ///< final norm, output projection, loss
/// Embedding, blocks, head: what every decoder-only language model is.
std::vector<Layer> decoder_layers(const TransformerLayout&);
std::vector<Layer> decoder_layers(const TransformerLayout&,
                                  Layer (*block)(const TransformerLayout&, std::int64_t index));

}  // namespace trainyard::transformers
