#pragma once
#include <cstdint>
#include <string>

#include "models/networks/layers/adapters.hpp"
#include "models/networks/layers/fusions.hpp"
#include "models/networks/layers/network.hpp"
#include "models/networks/layers/sharding.hpp"
#include "models/reading/document.hpp"

namespace trainyard {

enum class PositionEmbedding : std::uint8_t { learned, rotary, relative };

/// Experts that a router chooses from, and those that see every token.
struct ExpertsConfig {
  std::int64_t count = 0;  ///< routed; 0: none, every layer is dense
  std::int64_t per_token = 0;
  std::int64_t intermediate_size = 0;  ///< of a routed expert
  std::int64_t first_layer = 0;        ///< layers before it are dense
  std::int64_t every = 1;              ///< of layers i (from 0) those with (i + 1) % every = 0; the others are dense
  std::int64_t dense_intermediate_size = 0;   ///< of dense layers, where it is not `intermediate_size`
  std::int64_t shared_intermediate_size = 0;  ///< of all shared experts together; 0: none
  bool shared_gate = false;                   ///< the shared experts' output is scaled by a learned gate
  bool router_bias = false;
  bool correction_bias = false;                   ///< the router adds a learned number an expert when it chooses
  std::int64_t groups = 1, groups_per_token = 1;  ///< a token's experts are in so many of the groups

  ExpertRouting routing() const {
    return {static_cast<double>(count), static_cast<double>(per_token), static_cast<double>(groups),
            static_cast<double>(groups_per_token)};
  }
};

/// Multi-head latent attention.
struct LatentConfig {
  std::int64_t query_rank = 0;                                               ///< 0: queries are projected in one step
  std::int64_t key_value_rank = 0;                                           ///< 0: no latent attention
  std::int64_t plain_head_dim = 0, rotary_head_dim = 0, value_head_dim = 0;  ///< of a query or key, and of a value
};

/// Where the norm of a residual branch f stands: norm before, x + f(norm(x)); after, norm(x + f(x)), as in BERT; of the
/// branch's output, x + norm(f(x)), as in OLMo 2; both before and there, x + norm(f(norm(x))), as in Gemma 2.
enum class NormPlace : std::uint8_t { before, after, output, both };
/// Of queries and keys: none; one weight for all heads, head by head (Qwen3); over all heads of a token (OLMo 2).
enum class HeadNorms : std::uint8_t { none, each, all };

/// What ends BERT: a masked language model; that and the next sentence's classifier; or the pooler alone.
enum class EncoderHead : std::uint8_t { masked_lm, pre_training, pooler };

/// A transformer, in Hugging Face's words.
struct TransformerConfig {
  std::string name, source;
  std::string model_type;
  Place place;                          ///< of the document it was read from
  std::int64_t num_hidden_layers = 0;   ///< of the encoder where there is a decoder too
  std::int64_t num_decoder_layers = 0;  ///< of an encoder-decoder; 0: there is one stack
  std::int64_t hidden_size = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t vocab_size = 0;
  std::int64_t max_position_embeddings = 0;  ///< the default sequence length, too
  bool fixed_seq_length = false;    ///< the sequence is as long as `max_position_embeddings` (patches of an image)
  std::int64_t sliding_window = 0;  ///< positions a token attends to, itself included; 0: all before it
  /// Layers i (from 0) with (i + 1) % full_attention_every = 0 have no window; 0: all have it.
  std::int64_t full_attention_every = 0;
  bool chunked_attention = false;  ///< the windows do not slide: blocks of tokens that see only each other (Llama 4)
  PositionEmbedding position_embedding = PositionEmbedding::learned;
  std::int64_t relative_buckets = 0;  ///< of relative positions, a learned bias each and head
  bool causal = true;                 ///< a token attends to those before it only
  Norm norm = Norm::layer_norm;
  NormPlace norm_place = NormPlace::before;
  HeadNorms head_norms = HeadNorms::none;
  bool attention_sinks = false;  ///< a learned logit a head that no key has (gpt-oss)
  std::string activation;        ///< of the feed-forward part
  bool gated_mlp = false;        ///< activation(gate(x)) · up(x)
  bool fused_qkv = false;        ///< one weight for query, key and value
  bool qkv_bias = false;
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  /// Probabilities; 0: no such kernel.
  double embedding_dropout = 0, attention_dropout = 0, residual_dropout = 0, activation_dropout = 0;
  ExpertsConfig experts;
  LatentConfig latent;
  std::int64_t type_vocab_size = 0;  ///< kinds of segments a token may be of (BERT)
  EncoderHead encoder_head = EncoderHead::masked_lm;
  std::int64_t predictions = 0;  ///< tokens of a sequence that BERT's language model predicts; 0: all
  std::int64_t patch_size = 0, num_channels = 0, num_labels = 0;  ///< of an image, and its classes (ViT)
};

/// Reads what Hugging Face writes as config.json. `model_type` decides which keys are known (`transformers/`, one file
/// a family); of a network of text and images `text_config` alone is read: the part that sees images is left out. Keys of the format that change no cost are ignored, any other unread key is refused; `_source` is kept.
/// Throws UserError with the place.
TransformerConfig read_transformer(const Node&);

/// Sequences of many lengths without padding: packed into full ones, or one after another in one row of tokens.
struct UnpaddedLengths {
  double mean = 0;      ///< tokens of a sequence; 0: all are full
  double attended = 0;  ///< tokens of the sequence that a token is in, on average: the mean square over the mean
};

/// What the framework's kernels fuse, how ranks share the layers, and the length that only some networks have.
struct TransformerOptions : Fusions {
  Sharding sharding;
  /// Linear layers of blocks multiply in fp8, of operands that are cast (and, for the other products, transposed) before:
  /// inputs forward, gradients of outputs backward. Weights, attention, router, output projection and all else stay in
  /// the network's precision (TransformerEngine, torchao).
  bool fp8 = false;
  bool fp8_any_layout = false;  ///< `Fp8Products::any_layout`
  Adapters adapters;
  UnpaddedLengths unpadded;
  /// Tokens of a sample of an encoder-decoder's decoder. 0: a quarter of `seq_length`, about what T5's pre-training has
  /// (Raffel et al. 2020: 15 % of the tokens are dropped in spans of 3, so 512 inputs have 114 targets).
  std::int64_t decoder_seq_length = 0;
};

/// Tokens of a sample of the decoder beside an encoder; 0 where there is none.
std::int64_t decoder_tokens(const TransformerConfig&, std::int64_t seq_length, const TransformerOptions& = {});

/// The kernels of one micro-batch, and what they keep, as PyTorch runs them eagerly: layers embedding, one a block,
/// head (final norm, output projection, loss); of an encoder-decoder embedding, encoder blocks, encoder norm, decoder
/// embedding, decoder blocks, head. Norms, rotary embedding and activation are one kernel each (torch.nn.LayerNorm,
/// RMSNorm, GELU; Hugging Face's own Python versions of some are several). Weights, activations and products are in
/// `precision`; nothing is masked for padding: sequences are full, or of the lengths that
/// `TransformerOptions::unpadded` says, whose tokens attend to those of their own sequence.
///
/// Kept tensors follow Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", §4.1
/// (34·s·b·h + 5·a·s²·b bytes a layer in 16 bits, with dropout and without flash attention), tensor by tensor; besides
/// them the norms keep fp32 statistics of each row, and flash attention an fp32 log-sum-exp a row and head (4·a·s·b).
/// Flash attention that is causal has 4·b·a·d·s²/2 FLOPs forward and 2.5 times that backward (Dao 2023, §4.1), one that
/// is not twice as many, all other matrix products 2·m·n·k. T5's adds a bias to the scores, its mask among it, so that
/// no pair is skipped; backward the bias' gradient of each sample is written and summed.
///
/// Experts: a router's product and top-k, a copy of each row to each of its experts, grouped GEMMs, and their weighted
/// sum. Tokens are spread evenly: each of the weights gets tokens · per_token / count rows, none is dropped, each
/// weight that gets a row is read once; the weights of all are one tensor, and all on the device. Losses that balance
/// the load are left out, and the router runs in `precision`. DeepSeek-V3's layers that predict further tokens (MTP)
/// are left out.
///
/// Sharded (`TransformerOptions::sharding`), it is what one rank does: of tensor ranks with the others' tokens and its
/// share of heads, feed-forward columns and vocabulary (Shoeybi et al. 2019; padded to a multiple of the ranks), between
/// exchanges named attention.*, mlp.*, experts.*, embedding.*, head.*; of sequence-parallel ones norms, dropouts and
/// residuals of its share of the tokens (Korthikanti et al. 2022); of context ranks its share of each sample, causal
/// blocks r and 2c−1−r of 2c so that all have as much to do; of expert ranks count / expert of the experts, with the
/// rows that the fullest one gets. Low-rank projections of latent attention are whole on every rank.
///
/// `seq_length` is of the encoder where there is a decoder too; `Network::tokens_per_sample` is the sum of both.
/// Throws UserError for sizes below 1, for a precision that is not modelled, for more tokens than learned positions,
/// for a length other than an image's patches and the class token, and for a sharding that does not divide the network
/// (heads, key-value heads, feed-forward width, experts, tokens) or that its family has not: T5 none at all, BERT and ViT
/// the tensor axis only.
Network transformer_network(const TransformerConfig&, std::int64_t micro_batch_size, std::int64_t seq_length, Precision,
                            const TransformerOptions& = {});

}  // namespace trainyard
