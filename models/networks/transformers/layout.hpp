#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/networks/layers/layer_builder.hpp"
#include "models/networks/transformers/transformer.hpp"

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

  const Sharding& sharding() const { return options.sharding; }
  double tensor() const { return sharding().tensor; }
  double context() const { return sharding().context; }
  bool tensor_parallel() const { return sharding().tensor > 1; }
  bool sequence_parallel() const { return tensor_parallel() && sharding().sequence; }
  double sequence_shares() const { return sequence_parallel() ? tensor() : 1; }

  // Of one rank: tokens, those of norms and residual sums, widths of its heads, columns and logits.
  double tokens() const { return seq / context(); }  ///< of a sample
  double rows() const { return samples * tokens(); }
  double residual_rows() const { return rows() / sequence_shares(); }
  double hidden() const { return static_cast<double>(config.hidden_size); }
  double heads() const { return static_cast<double>(config.num_attention_heads) / tensor(); }
  double key_value_heads() const { return static_cast<double>(config.num_key_value_heads) / tensor(); }
  double query() const { return heads() * static_cast<double>(config.head_dim); }
  double key() const { return key_value_heads() * static_cast<double>(config.head_dim); }
  /// Inner width of dense feed-forward parts.
  double ffn() const {
    const std::int64_t dense = config.experts.dense_intermediate_size;
    return static_cast<double>(dense > 0 ? dense : config.intermediate_size) / tensor();
  }
  Fp8Products products() const { return {options.fp8, options.fp8_scaling, options.fp8_any_layout}; }
  /// Norms before products write fp8.
  bool norms_cast() const {
    return options.fp8 && options.fp8_norms && options.fp8_scaling == Fp8Scaling::delayed && norms_input();
  }
  bool norms_input() const { return config.norm_place == NormPlace::before || config.norm_place == NormPlace::both; }
  bool norms_output() const { return config.norm_place == NormPlace::output || config.norm_place == NormPlace::both; }
  /// What a branch gives is added to the residual stream as it is: its gradient is that of the stream.
  bool adds_output() const { return config.residual_dropout == 0 && !sequence_parallel() && !norms_output(); }
  double vocab() const;                                   ///< padded, its share
  Bytes size() const { return element_size(precision); }  ///< of an element
  Bytes in_fp8(Bytes tensor) const { return tensor * (element_size(Precision::fp8) / size()); }
  /// Of all tokens, of which ranks may have shares.
  Bytes hidden_bytes() const { return size() * (rows() * hidden()); }
  Bytes rotary_table() const;  ///< an fp32 angle a position and rotated dimension
  /// For layers whose rows are the residual's.
  LayerBuilder builder(std::string name) const;
  /// Ends a block, with the recomputation that is asked for.
  Layer finish_block(LayerBuilder&&) const;
};

/// Throws UserError with the rule that a sharding breaks.
void check_sharding(const TransformerConfig&, std::int64_t seq_length, const TransformerOptions&);

// Exchanges over the tensor axis; nothing where it has one rank. Between the two stand layers split by columns, and one
// by rows; the builder's rows are all tokens there.

/// Who reads what tensor ranks share, and so whether it can be cast to fp8 before.
enum class Readers : std::uint8_t {
  products,        ///< matrix products alone, of what the norm before them made: it may cast
  later_products,  ///< matrix products alone, but others have read what the norm made
  others           ///< others too: a router, adapters, a loss
};

/// Sequence-parallel: gathers all tokens (`prefix`.gather, backward a reduce-scatter); else `prefix`.reduce.backward.
void begin_columns(LayerBuilder&, const TransformerLayout&, const std::string& prefix, Readers = Readers::products);
/// Sums what the ranks made: `prefix`.scatter to their own tokens (backward an all-gather), or `prefix`.reduce.
void end_rows(LayerBuilder&, const TransformerLayout&, const std::string& prefix, Readers = Readers::products);
/// A linear layer that reads what `begin_columns` gave; `gathers`: of those with this input the last one.
LayerBuilder::Linear column_linear(const TransformerLayout&, const std::string& prefix, bool gathers,
                                   Readers = Readers::products);
/// The gradient that `end_rows` gathers has been cast.
bool gathers_cast_gradient(const TransformerLayout&, Readers = Readers::products);
/// Of the input of the linear layers that are such a part: adapters beside them read it in 16 bits.
Readers readers_of(const TransformerLayout&, LinearPart);
/// What ends a branch besides: the bias of its last layer, which comes after the sum over ranks.
void row_bias(LayerBuilder&, const TransformerLayout&, const std::string& name);

/// One use of attention in a layer. Widths are those of one head; lengths are tokens a sample.
struct AttentionShape {
  std::string prefix = {};  ///< of the names of kernels and tensors
  double heads = 0, key_value_heads = 0;
  double query_width = 0, value_width = 0;  ///< a key is as wide as a query
  double queries = 0, keys = 0;             ///< of the tokens that a rank has; of one step of a ring
  int ring = 1;                             ///< ranks round which keys and values go, each of which has as many to do
  double attended = 0;                      ///< keys that a query sees, where sequences differ in length; 0: all
  double window = 0;                        ///< positions that a token attends to, itself included; 0: all
  bool chunked = false;                     ///< windows do not slide
  bool causal = false;
  bool scaled = true;          ///< scores are divided by √width
  bool position_bias = false;  ///< a learned bias of every head, query and key is added to the scores (T5)

  /// Pairs of a query and a key that one head computes: causal, half the square or a band of it; else all. Of a step
  /// of a causal ring half of all too: a rank has the blocks r and 2c-1-r of 2c.
  double pairs() const;
  double longest() const;  ///< keys that the last query sees
};
/// Of layer `index` from 0.
AttentionShape self_attention_shape(const TransformerLayout&, std::int64_t index = 0);

/// softmax(q·kᵀ)·v of queries, keys and values that are there: in one kernel or in several, as the options say.
void attention(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// y = x·W, `shape`'s values back to the hidden size.
void output_projection(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// Projections, rotary embedding and attention of queries, keys and values of the same tokens.
void self_attention(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, §2.1): queries, and keys with values, are projected
/// through a low rank; the rotary part of a key is one for all heads.
void latent_attention(LayerBuilder&, const TransformerLayout&);

/// A norm of the residual stream.
void residual_norm(LayerBuilder&, const TransformerLayout&, const std::string& name, bool casts = false);
/// A residual branch, with its norm in its `NormPlace`. Between the two calls stands f, whose input `Readers` read.
void begin_branch(LayerBuilder&, const TransformerLayout&, const std::string& name, Readers = Readers::others);
void end_branch(LayerBuilder&, const TransformerLayout&, const std::string& name);

struct FeedForward {
  std::string prefix = {};  ///< of the names of kernels and tensors
  double width = 0;         ///< inner
  double experts = 1;       ///< as in `LayerBuilder::Linear`
  double active_share = 1;
  bool keeps_input = true;
  bool shares_fork_gradient = false;  ///< of the output
  bool routed = false;                ///< of experts that have their own rows; else they are what `begin_columns` gave
  bool gathers = true;                ///< as in `column_linear`
  /// Of the input, and of the gradient of the output, but of routed experts. (Adapters have chains of their own.)
  Readers readers = Readers::products, gradient_readers = Readers::products;
};
/// Two linear layers with the activation between, or three where it is gated.
void feed_forward(LayerBuilder&, const TransformerLayout&, const FeedForward&);
/// One kernel that reads and writes `width` a row and keeps its input (or output).
void activation(LayerBuilder&, Precision, const std::string& name, double width);
/// The same, where so much of its input is kept.
void activation(LayerBuilder&, Precision, const std::string& name, double width, Bytes kept);
/// Router, permutation, grouped expert GEMMs, combination; shared experts. See `transformer_network`.
void mixture_of_experts(LayerBuilder&, const TransformerLayout&);
/// Experts, or in the first layers a dense feed-forward part, with norm and residual.
void experts_branch(LayerBuilder&, const TransformerLayout&, std::int64_t index);

void attention_branch(LayerBuilder&, const TransformerLayout&, std::int64_t index = 0);
void feed_forward_branch(LayerBuilder&, const TransformerLayout&);

/// The first token of each sample; what follows has one row a sample.
void first_token(LayerBuilder&, const TransformerLayout&);
/// Adds one row of `seq` positions to every sample.
void add_positions(LayerBuilder&, const TransformerLayout&, const std::string& name, Bytes positions, int terms);

/// Looks tokens up in a table that ranks of the tensor axis share by its entries.
void token_embedding(LayerBuilder&, const TransformerLayout&);
/// Output projection, by the vocabulary over the ranks of the tensor axis, and cross-entropy.
void vocabulary_loss(LayerBuilder&, const TransformerLayout&, bool bias);

// Layers.
Layer embedding_layer(const TransformerLayout&);
Layer dense_block(const TransformerLayout&, std::int64_t index);
Layer language_head(const TransformerLayout&);  ///< final norm, output projection, loss
/// Embedding, blocks, head: what every decoder-only language model is.
std::vector<Layer> decoder_layers(const TransformerLayout&);
std::vector<Layer> decoder_layers(const TransformerLayout&,
                                  Layer (*block)(const TransformerLayout&, std::int64_t index));
/// The same with Llama's attention, and experts in the layers that `ExpertsConfig` says.
std::vector<Layer> expert_decoder_layers(const TransformerLayout&);

}  // namespace trainyard::transformers
