#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "models/networks/layers/fusions.hpp"
#include "models/networks/layers/network.hpp"
#include "models/networks/layers/scan_kernels.hpp"
#include "models/networks/layers/sharding.hpp"
#include "models/reading/document.hpp"

namespace trainyard {

struct OperatorLists;

enum class PositionEmbedding : std::uint8_t { learned, rotary, relative, none };

/// The experts of a layer: routed ones, from which a router chooses, and shared ones, which see every token.
struct ExpertsConfig {
  std::int64_t count = 0;      ///< number of routed experts; 0: every layer is dense
  std::int64_t per_token = 0;  ///< number of experts of a token, without those that compute nothing
  std::int64_t idle = 0;  ///< number of experts that return their input (LongCat-Flash); the router scores them too
  std::int64_t intermediate_size = 0;  ///< inner width of a routed expert
  std::int64_t first_layer = 0;        ///< layers before it are dense
  std::int64_t layer_interval =
      1;  ///< layers i (from 0) with (i + 1) % layer_interval = 0 have experts; others are dense
  std::int64_t dense_intermediate_size = 0;  ///< inner width of dense layers; 0: `TransformerConfig::intermediate_size`
  std::int64_t shared_intermediate_size = 0;  ///< inner width of all shared experts together; 0: none
  /// Routed experts read and write rows of this width, to and from which all tokens are projected (Nemotron 3 Super);
  /// 0: rows of the hidden size.
  std::int64_t latent_size = 0;
  bool shared_gate = false;  ///< the shared experts' output is scaled by a learned gate
  bool router_bias = false;
  bool by_token = false;                          ///< a table names the experts of a token, instead of its scores
  bool correction_bias = false;                   ///< the router adds a learned number for each expert when it chooses
  std::int64_t groups = 1, groups_per_token = 1;  ///< a token's experts are in `groups_per_token` of the groups

  ExpertRouting routing() const {
    return {static_cast<double>(count), static_cast<double>(per_token), static_cast<double>(groups),
            static_cast<double>(groups_per_token)};
  }
};

/// Multi-head latent attention.
struct LatentConfig {
  std::int64_t query_rank = 0;      ///< 0: queries are projected in one step
  std::int64_t key_value_rank = 0;  ///< 0: no latent attention
  std::int64_t plain_head_dim = 0, rotary_head_dim = 0,
               value_head_dim = 0;  ///< widths of a query or key, and of a value
};

/// Sparse attention: a small indexer scores all keys for each query, and attention reads the best ones (DeepSeek-AI
/// 2025, DeepSeek-V3.2).
struct IndexerConfig {
  std::int64_t heads = 0, head_dim = 0;
  std::int64_t keys = 0;  ///< number of keys that attention reads for a query; 0: there is no indexer
};

/// Attention and feed-forward blocks that several layers use (Zamba2). The input of a block is the hidden state and the
/// embedding side by side. Uses take turns at the blocks. Each use has adapters of its own.
struct SharedBlocks {
  std::int64_t count = 0;  ///< number of blocks; 0: layers share nothing
  std::int64_t adapter_rank = 0;
  bool attention_adapters = false;  ///< queries, keys and values have adapters too, besides the feed-forward part
};

/// Tokens of a chunk in flash-linear-attention's kernels of delta rules.
constexpr std::int64_t kDeltaChunk = 64;

/// A state-space layer or linear attention: projections, a causal convolution, a scan, a gated norm. Sizes are as in
/// `ScanShape`.
struct ScanConfig {
  ScanKind kind = ScanKind::none;
  std::int64_t heads = 0, head_dim = 0, groups = 0, state = 0, chunk = 0, taps = 0;
  std::int64_t step_rank = 0;  ///< width of the projection from which Mamba-1 computes the steps of channels
  bool convolution_bias = false, projection_bias = false;
  bool gated_norm = true;  ///< a norm before the output projection

  std::int64_t inner() const { return heads * head_dim; }
};

/// Letters of `TransformerConfig::pattern`, as in Nemotron-H's hybrid_override_pattern.
namespace layer_letters {
inline constexpr char kScan = 'M', kAttention = '*', kExperts = 'E', kDense = '-';
inline constexpr char kBoth = 'B';  ///< a scan and attention in one layer: Falcon-H1, Zamba2
}  // namespace layer_letters

/// Place of the norm of a residual branch f. before: x + f(norm(x)); after: norm(x + f(x)), as in BERT; output:
/// x + norm(f(x)), as in OLMo 2; both: x + norm(f(norm(x))), as in Gemma 2.
enum class NormPlace : std::uint8_t { before, after, output, both };
/// Norms of queries and keys. one_a_head: head by head with one weight for all heads (Qwen3); all: over all heads of a
/// token (OLMo 2).
enum class HeadNorms : std::uint8_t { none, one_a_head, all };

/// End of BERT: a masked language model; that and the next sentence's classifier; or only the pooler.
enum class EncoderHead : std::uint8_t { masked_lm, pre_training, pooler };

/// A transformer, with Hugging Face's names.
struct TransformerConfig {
  std::string name, source;
  std::string model_type;
  Place place;                          ///< place of the document from which it was read
  std::int64_t num_hidden_layers = 0;   ///< with a decoder too, layers of the encoder
  std::int64_t num_decoder_layers = 0;  ///< decoder layers of an encoder-decoder; 0: there is one stack
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;  ///< also the default sequence length
  bool fixed_seq_length = false;             ///< the sequence length is `max_position_embeddings` (patches of an image)
  std::int64_t sliding_window = 0;           ///< positions that a token attends to, including itself; 0: all before it
  /// Layers i (from 0) with (i + 1) % full_attention_every = 0 have no window; 0: all have it.
  std::int64_t full_attention_every = 0;
  /// Windows do not slide, but are blocks of tokens that see only each other (Llama 4).
  bool chunked_attention = false;
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  std::int64_t relative_buckets = 0;  ///< buckets of relative positions; each has a learned bias for each head
  bool causal = true;                 ///< a token attends only to those before it
  Norm norm = Norm::layer_norm;
  NormPlace norm_place = NormPlace::before;
  HeadNorms head_norms = HeadNorms::none;
  bool attention_sinks = false;  ///< each head has a learned logit besides those of the keys (gpt-oss)
  std::string activation;        ///< activation of the feed-forward part
  bool gated_mlp = false;        ///< activation(gate(x)) · up(x)
  bool fused_qkv = false;        ///< one weight for query, key and value
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool scaled_rotary = false;   ///< rotated queries and keys are scaled (YaRN: Peng et al. 2023, §3.4)
  double activation_limit = 0;  ///< experts clamp the inputs of their gated activation to it; 0: they do not
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  bool head_bias = false;  ///< the output projection has a bias
  /// Attention and feed-forward part of a block read the same norm, and are added together (GPT-J).
  bool one_norm = false;
  /// Dropout probabilities; 0: there is no such kernel.
  double embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0, activation_dropout = 0;
  ExpertsConfig experts;
  LatentConfig latent;
  IndexerConfig indexer;
  ScanConfig scan;
  SharedBlocks shared_blocks;
  /// The kind of each layer, one of `layer_letters`. Empty: all layers have attention.
  std::string pattern;
  std::int64_t further_tokens = 0;  ///< layers after the last block that predict one more token each (MTP)
  std::string further_pattern;      ///< the branches of each of them, if the network has a `pattern`
  bool embedding_norm = false;      ///< a norm of the embedding (BLOOM)
  bool attention_gate = false;  ///< the output of attention is multiplied by the sigmoid of a projection of its input
  std::int64_t type_vocab_size = 0;  ///< number of kinds of segments (BERT)
  EncoderHead encoder_head = EncoderHead::masked_lm;
  std::int64_t predictions = 0;  ///< number of tokens of a sequence that BERT's language model predicts; 0: all
  std::int64_t patch_size = 0, num_channels = 0, num_labels = 0;  ///< sizes of an image, and number of classes (ViT)
  bool has_tables = false;  ///< rows come from tables, of which each rank of the expert axis has an equal part
  /// Layers of a network that a document writes as operators. Null: `model_type` decides the layers.
  std::shared_ptr<const OperatorLists> lists;

  /// Has a layer of the pattern this letter? Without a pattern there are only layers of attention.
  bool has_layer(char letter) const {
    if (pattern.empty()) return letter == layer_letters::kAttention;
    const bool mixes = letter == layer_letters::kScan || letter == layer_letters::kAttention;
    return pattern.find(letter) != std::string::npos ||
           (mixes && pattern.find(layer_letters::kBoth) != std::string::npos);
  }
};

/// Reads Hugging Face's config.json. `model_type` decides which keys are legal (each family has a file in this folder).
/// For a network of text and images only `text_config` is read, and the part for images is left out: the name then ends
/// in "(text part)". Keys that change no cost are ignored; any other unread key is refused. `_source` is kept. Throws
/// UserError with the place.
TransformerConfig read_transformer(const Node&);

/// Sequences of different lengths without padding: packed into full ones, or one after another in one row of tokens.
struct UnpaddedLengths {
  double mean = 0;      ///< mean number of tokens of a sequence; 0: all sequences are full
  double attended = 0;  ///< mean length of the sequence of a token: the mean square of lengths over their mean
};

/// Fusions of the framework's kernels, sharding of the layers, and options that only some networks have.
struct TransformerOptions : Fusions {
  Sharding sharding;
  /// Linear layers of blocks multiply in fp8. Their operands, inputs forward and gradients of outputs backward, are
  /// cast before (and transposed for the other products). Weights, attention, router, output projection and all else
  /// stay in the network's precision (TransformerEngine, torchao).
  bool fp8 = false;
  bool fp8_any_layout = false;  ///< see `Fp8Products::any_layout`
  Adapters adapters;
  UnpaddedLengths unpadded;
  /// Tokens of a sample in the decoder of an encoder-decoder. 0: a quarter of `seq_length`, about as in T5's
  /// pre-training (Raffel et al. 2020: 15 % of the tokens are dropped in spans of 3, so 512 inputs have 114 targets).
  std::int64_t decoder_seq_length = 0;
};

/// Returns the tokens of a sample in the decoder of an encoder-decoder; 0 for other networks.
std::int64_t decoder_tokens(const TransformerConfig&, std::int64_t seq_length, const TransformerOptions& = {});

/// Returns the largest number of tensor ranks that divides the heads and columns of a network.
std::int64_t tensor_room(const TransformerConfig&);

/// Returns the kernels of one micro-batch, and the tensors that they keep, as PyTorch runs them eagerly. The layers are
/// embedding, one for each block, and head (final norm, output projection, loss). Those of an encoder-decoder are
/// embedding, encoder blocks, encoder norm, decoder embedding, decoder blocks, head. Norms, rotary embedding and
/// activation are one kernel each (torch.nn.LayerNorm, RMSNorm, GELU; some of Hugging Face's Python versions are
/// several). Weights, activations and products are in `precision`. There is no mask for padding: sequences are full, or
/// have the lengths of `TransformerOptions::unpadded`, and tokens attend to those of their own sequence.
///
/// Kept tensors follow Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", §4.1
/// (34·s·b·h + 5·a·s²·b bytes a layer in 16 bits, with dropout and without flash attention), tensor by tensor. In
/// addition, norms keep fp32 statistics of each row, and flash attention keeps an fp32 log-sum-exp for each row and
/// head (4·a·s·b). Causal flash attention has 4·b·a·d·s²/2 FLOPs forward and 2.5 times that backward (Dao 2023, §4.1);
/// other flash attention has twice as many; all other matrix products have 2·m·n·k. T5's attention adds a bias to the
/// scores, which includes the mask, so that no pair is skipped; backward the gradient of the bias is written for each
/// sample and summed.
///
/// Experts have a router's product and top-k, a copy of each row to each of its experts, grouped GEMMs, and a weighted
/// sum. Tokens are spread evenly: each weight gets tokens · per_token / count rows, none is dropped, and each weight
/// that gets a row is read once. The weights of all experts are one tensor, all of it on the device. Losses that
/// balance the load are left out, and the router runs in `precision`.
///
/// Layers of `ScanConfig` have the kernels of `scan_kernels.hpp`. Kept are what these libraries keep: Mamba-2 the output
/// of the input projection, of the scan and of its gate; delta rules the inputs of convolution, scan and gated norm, and
/// the products within chunks. Tensor ranks split the heads. Ranks of the context axis trade tokens for heads before the
/// convolution and take them back after the scan, whatever attention does (Megatron-Core).
///
/// With an indexer, attention has the pairs of a query and its best keys only, in the latent space (one key of all
/// heads); the indexer's products are in the precision of the linear layers; backward it learns from the chosen keys and
/// sends no gradient to the layers before it (DeepSeek-AI 2025, section 2.1).
///
/// Sharded (`TransformerOptions::sharding`), it is the work of one rank. Tensor ranks have the same tokens, and each
/// has its share of heads, feed-forward columns and vocabulary (Shoeybi et al. 2019; padded to a multiple of the
/// ranks), between exchanges named attention.*, mlp.*, experts.*, embedding.*, head.*. Sequence parallelism gives each
/// its share of the tokens in norms, dropouts and residuals (Korthikanti et al. 2022). Context ranks have a share of
/// each sample, if causal the blocks r and 2c−1−r of 2c, so that their loads are equal. Expert ranks have count /
/// expert of the experts, and the rows are those of the fullest rank. Low-rank projections of latent attention are not
/// split.
///
/// With a decoder too, `seq_length` is that of the encoder, and `Network::tokens_per_sample` is the sum of both. Throws
/// UserError for sizes below 1, for a precision that is not modelled, for more tokens than learned positions, for a
/// length other than an image's patches and the class token, for a sharding that does not divide the network (heads,
/// key-value heads, feed-forward width, experts, tokens), and for one that the family does not support: T5 supports
/// none, BERT and ViT only the tensor axis.
Network transformer_network(const TransformerConfig&, std::int64_t micro_batch_size, std::int64_t seq_length, Precision,
                            const TransformerOptions& = {});

}  // namespace trainyard
