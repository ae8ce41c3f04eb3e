#pragma once
#include <string>
#include <vector>

#include "models/networks/layers/layer_builder.hpp"
#include "models/networks/transformers/transformer.hpp"

/// Functions that build the layers of transformers. Code outside this folder uses `transformer.hpp`.
namespace trainyard::transformers {

/// A transformer with its options, and the sizes of one micro-batch as doubles.
struct TransformerLayout {
  const TransformerConfig& config;
  const TransformerOptions& options;
  Precision precision;
  double samples = 1;
  double seq = 1;          ///< tokens a sample; with a decoder too, those of the encoder
  double decoder_seq = 0;  ///< 0: no encoder-decoder

  const Sharding& sharding() const { return options.sharding; }
  double tensor() const { return sharding().tensor; }
  double context() const { return sharding().context; }
  bool tensor_parallel() const { return sharding().tensor > 1; }
  bool sequence_parallel() const { return tensor_parallel() && sharding().sequence; }
  double sequence_shares() const { return sequence_parallel() ? tensor() : 1; }

  // Sizes of one rank: tokens, rows of norms and residual sums, widths of its heads, columns and logits.
  double tokens() const { return seq / context(); }  ///< tokens of a sample
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
  /// Width of the rows that go to routed experts.
  double expert_rows_width() const {
    const std::int64_t latent = config.experts.latent_size;
    return latent > 0 ? static_cast<double>(latent) : hidden();
  }
  Fp8Products products() const { return {options.fp8, options.fp8_scaling, options.fp8_any_layout}; }
  /// Do norms before products write fp8?
  bool norms_cast() const {
    return options.fp8 && options.fp8_norms && options.fp8_scaling == Fp8Scaling::delayed && norms_input();
  }
  bool norms_input() const { return config.norm_place == NormPlace::before || config.norm_place == NormPlace::both; }
  bool norms_output() const { return config.norm_place == NormPlace::output || config.norm_place == NormPlace::both; }
  /// Is the output of a branch added to the residual stream unchanged, so that its gradient is that of the stream?
  bool adds_output() const { return config.residual_dropout == 0 && !sequence_parallel() && !norms_output(); }
  double vocab() const;                                   ///< the rank's share of the padded vocabulary
  Bytes size() const { return element_size(precision); }  ///< size of an element
  Bytes in_fp8(Bytes tensor) const { return tensor * (element_size(Precision::fp8) / size()); }
  /// Size of the hidden state of all tokens. Each rank may have only a share of it.
  Bytes hidden_bytes() const { return size() * (rows() * hidden()); }
  Bytes rotary_table() const;  ///< an fp32 angle for each position and rotated dimension
  /// Returns a builder for layers with the rows of the residual stream.
  LayerBuilder builder(std::string name) const;
  /// Ends a block with the recomputation of the sharding.
  Layer finish_block(LayerBuilder&&) const;
};

/// Throws UserError with the rule that the sharding breaks.
void check_sharding(const TransformerConfig&, std::int64_t seq_length, const TransformerOptions&);

// Exchanges over the tensor axis. There are none if it has one rank. Between `begin_columns` and `end_rows` there are
// layers split by columns, then one split by rows; the builder's rows are all tokens there.

/// Readers of a tensor that tensor ranks share. They decide whether it can be cast to fp8 before the exchange.
enum class Readers : std::uint8_t {
  products,        ///< only matrix products, directly after a norm, which may cast
  later_products,  ///< only matrix products, but others have read the norm's output
  others           ///< others too: a router, adapters, a loss
};

/// Sequence-parallel: gathers all tokens (`prefix`.gather, backward a reduce-scatter). Otherwise the backward pass sums
/// the gradients of the input (`prefix`.reduce.backward, an all-reduce). `sides`: rows have so many times the hidden size;
/// other sizes than 1 are for others than matrix products.
void begin_columns(LayerBuilder&, const TransformerLayout&, const std::string& prefix, Readers = Readers::products,
                   double sides = 1);
/// Sums the outputs of the ranks: `prefix`.scatter to their own tokens (backward an all-gather), or `prefix`.reduce.
void end_rows(LayerBuilder&, const TransformerLayout&, const std::string& prefix, Readers = Readers::products);
/// Returns a linear layer that reads the result of `begin_columns`. `gathers`: it is the last layer with this input.
LayerBuilder::Linear column_linear(const TransformerLayout&, const std::string& prefix, bool gathers,
                                   Readers = Readers::products);
/// Is the gradient that `end_rows` gathers cast before?
bool gathers_cast_gradient(const TransformerLayout&, Readers = Readers::products);
/// Returns the readers of the input of such linear layers. Adapters beside them read it in 16 bits.
Readers readers_of(const TransformerLayout&, LinearPart);
/// Adds the bias of the last layer of a branch after the sum over ranks.
void row_bias(LayerBuilder&, const TransformerLayout&, const std::string& name);

/// One use of attention in a layer. Widths are those of one head; lengths are tokens a sample.
struct AttentionShape {
  std::string prefix = {};  ///< prefix of the names of kernels and tensors
  double input_width = 0;   ///< width of the rows that are projected; 0: the hidden size
  double heads = 0, key_value_heads = 0;
  double query_width = 0, value_width = 0;  ///< a key is as wide as a query
  double queries = 0, keys = 0;             ///< tokens of a rank, in one step of a ring
  int ring = 1;                             ///< number of equally loaded ranks round which keys and values go
  double attended = 0;                      ///< mean number of keys that a query sees if lengths differ; 0: all
  double window = 0;                        ///< positions that a token attends to, itself included; 0: all
  bool chunked = false;                     ///< windows do not slide
  bool causal = false;
  bool scaled = true;          ///< scores are divided by √width
  bool position_bias = false;  ///< a learned bias of every head, query and key is added to the scores (T5)

  /// Number of pairs of a query and a key that one head computes: if causal, half of the square or a band of it; else
  /// all. A step of a causal ring computes half of all pairs too, because a rank has the blocks r and 2c-1-r of 2c.
  double pairs() const;
  double longest() const;  ///< number of keys that the last query sees
  int mask_edges() const;  ///< edges of the mask: the diagonal if causal, and the end of a sliding window
};
/// Returns the attention of layer `index`, counted from 0.
AttentionShape self_attention_shape(const TransformerLayout&, std::int64_t index = 0);

/// The keys that an indexer chooses for the queries of a sample.
struct KeyChoice {
  double heads = 0, head_dim = 0;  ///< small heads with one key for all
  double keys = 0;                 ///< number of keys of a sample
  double chosen = 0;               ///< most keys of a query
  bool causal = false;             ///< a query sees the keys before it, a share of all

  double chosen_mean() const;  ///< mean number of keys of a query
};
/// Scores all keys that a query sees with a few small heads, and chooses the best. The indexer learns from the
/// distribution of `attention` over the chosen keys, which is computed again, and sends no gradient to the layers before
/// it (DeepSeek-AI 2025, eq. 1 to 4).
void choose_keys(LayerBuilder&, const TransformerLayout&, const std::string& name, const KeyChoice&,
                 const AttentionShape& attention);

/// softmax(q·kᵀ)·v of given queries, keys and values, in one kernel or in several, depending on the options.
void attention(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// Rotates queries and keys of these widths, by as many kernels as the options state.
void rotary(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// A learned logit of each head besides those of the keys, which the kernel of attention reads (gpt-oss).
void attention_sinks(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// Multiplies the output of attention, of `width` a row, by the sigmoid of a part of its input.
void attention_gate(LayerBuilder&, const TransformerLayout&, double width);
/// y = x·W from the values of all heads to the hidden size.
void output_projection(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// Projections, rotary embedding and attention, with queries, keys and values of the same tokens.
void self_attention(LayerBuilder&, const TransformerLayout&, const AttentionShape&);
/// Multi-head latent attention (DeepSeek-AI 2024, DeepSeek-V2, §2.1): queries, and keys with values, are projected
/// through a low rank; all heads have the same rotary part of a key.
void latent_attention(LayerBuilder&, const TransformerLayout&);

/// Adds the exchange in which ranks of the context axis give up heads for tokens, or take them back.
void trade_heads(LayerBuilder&, const TransformerLayout&, const std::string& name, Bytes tensors);
/// Returns the scan of a rank's heads over its tokens, before ranks of the context axis trade tokens for heads. All
/// channels of Mamba-1 read the same keys and queries.
ScanShape rank_scan(const TransformerLayout&);
/// Returns the kernels of a backward pass, the last of which computes these gradients. Adapters need none of them.
std::vector<BackwardKernel> backward_kernels(std::vector<KernelCall>, std::vector<int> gradients,
                                             const TransformerLayout&);
/// Adds a state-space layer or linear attention without norm and residual. `keeps_input`: no earlier operator keeps it.
void scan_mixer(LayerBuilder&, const TransformerLayout&, bool keeps_input);
/// Adds a state-space layer of Mamba-1 without norm and residual.
void selective_mixer(LayerBuilder&, const TransformerLayout&);
/// Adds a state-space layer or linear attention with its norm and residual.
void scan_branch(LayerBuilder&, const TransformerLayout&);
/// Adds latent attention with its norm and residual.
void latent_branch(LayerBuilder&, const TransformerLayout&);

/// Adds a norm of the residual stream.
void residual_norm(LayerBuilder&, const TransformerLayout&, const std::string& name, bool casts = false);
/// Begins and ends a residual branch f, with its norm in its `NormPlace`. f is built between the two calls. `Readers`
/// read its input.
void begin_branch(LayerBuilder&, const TransformerLayout&, const std::string& name, Readers = Readers::others);
void end_branch(LayerBuilder&, const TransformerLayout&, const std::string& name);

struct FeedForward {
  std::string prefix = {};  ///< prefix of the names of kernels and tensors
  double width = 0;         ///< inner width
  double experts = 1;       ///< as in `LayerBuilder::Linear`
  double active_share = 1;
  bool keeps_input = true;
  bool shares_fork_gradient = false;  ///< as in `LayerBuilder::Linear`, for the output
  bool routed = false;                ///< true: rows of routed experts; false: the rows after `begin_columns`
  bool gathers = true;                ///< as in `column_linear`
  /// Readers of the input and of the gradient of the output; unused by routed experts.
  Readers readers = Readers::products, gradient_readers = Readers::products;
};
/// Two linear layers with the activation between them, or three if it is gated.
void feed_forward(LayerBuilder&, const TransformerLayout&, const FeedForward&);
/// The activation of such a part, with a gate or without, by the kernels that the options state.
void feed_forward_activation(LayerBuilder&, const TransformerLayout&, const FeedForward&);
/// Does the kernel of the activation write the operand of the product after it in fp8, and backward the gradients that the
/// products before it read? It knows the scale of no tensor whose maximum a pass finds before.
bool activation_casts(const TransformerLayout&, const FeedForward&);
/// One kernel that reads and writes `width` elements a row and keeps its input (or output).
void activation(LayerBuilder&, Precision, const std::string& name, double width);
/// Adds an activation that keeps `kept_bytes` of its input and multiplies its rows by these weights.
void activation(LayerBuilder&, Precision, const std::string& name, double width, Bytes kept_bytes, Bytes weights);
/// Router, permutation, grouped expert GEMMs, combination, and shared experts. See `transformer_network`.
void mixture_of_experts(LayerBuilder&, const TransformerLayout&);
/// Router and experts with the exchanges of tensor ranks around them, whose names begin with `prefix`.
void exchanged_experts(LayerBuilder&, const TransformerLayout&, const std::string& prefix);
/// Experts, or a dense feed-forward part in layers without experts, with norm and residual.
void experts_branch(LayerBuilder&, const TransformerLayout&, std::int64_t index);

void attention_branch(LayerBuilder&, const TransformerLayout&, std::int64_t index = 0);
/// x + attention(norm(x)) + other(norm(x)). `add_other` adds the other branch after its norm, which attention keeps.
void attention_beside(LayerBuilder&, const TransformerLayout&, std::int64_t index,
                      void (*add_other)(LayerBuilder&, const TransformerLayout&));
/// Adds a dense feed-forward part without norm and residual. `keeps_input`: no other branch keeps it.
void feed_forward_part(LayerBuilder&, const TransformerLayout&, bool keeps_input);
void feed_forward_branch(LayerBuilder&, const TransformerLayout&);

/// Selects some rows, for example the first token of each sample. Later operators have these rows alone.
void select_rows(LayerBuilder&, const TransformerLayout&, const std::string& name, double rows);
/// Adds the same `positions` to every sample.
void add_positions(LayerBuilder&, const TransformerLayout&, const std::string& name, Bytes positions, int terms);

/// Adds a learned table of `entries` positions, whose rows are added to those of every sample by the kernel `sum`.
void learned_positions(LayerBuilder&, const TransformerLayout&, const std::string& name, const std::string& sum,
                       double entries);

/// Looks tokens up in the table `name`, whose entries are split over the ranks of the tensor axis, and exchanges the rows.
/// `tied`, `owned`: as in `LayerBuilder::Embedding`.
void look_up(LayerBuilder&, const TransformerLayout&, const std::string& name, const std::string& exchange, bool tied,
             bool owned);
/// Looks tokens up in a table whose entries are split over the ranks of the tensor axis. With a `prefix` of its
/// kernels' names, the table is that of the first layer.
void token_embedding(LayerBuilder&, const TransformerLayout&, const std::string& prefix = "");
/// Output projection and cross-entropy, with the vocabulary split over the ranks of the tensor axis. With a `prefix` of
/// its kernels' names, the weight is one that an earlier operator lists.
void vocabulary_loss(LayerBuilder&, const TransformerLayout&, bool bias, const std::string& prefix = "");

/// Adds the branches of a block to a layer.
using Branches = void (*)(LayerBuilder&, const TransformerLayout&, std::int64_t index);

// Layers.
Layer embedding_layer(const TransformerLayout&);
Layer dense_block(const TransformerLayout&, std::int64_t index);
/// Final norm, output projection and loss. With the branches of a block also the layers that predict further tokens.
Layer language_head(const TransformerLayout&, Branches = nullptr);
/// Returns these layers with the network's blocks between them.
std::vector<Layer> layers_between(Layer first, const TransformerLayout&, Layer last,
                                  Layer (*block)(const TransformerLayout&, std::int64_t index) = dense_block);
/// Returns embedding, blocks and head of a decoder-only language model.
std::vector<Layer> decoder_layers(const TransformerLayout&);
std::vector<Layer> decoder_layers(const TransformerLayout&,
                                  Layer (*block)(const TransformerLayout&, std::int64_t index));
/// Returns the layers of a decoder with blocks of these branches, and the layers that predict further tokens.
std::vector<Layer> decoder_layers(const TransformerLayout&, Branches);
/// Returns the layers of a decoder with Llama's attention, and experts in the layers that `ExpertsConfig` selects.
std::vector<Layer> expert_decoder_layers(const TransformerLayout&);

}  // namespace trainyard::transformers
