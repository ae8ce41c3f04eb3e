#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "sim/error.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// The linear layers of a block, for options that select some of them.
enum class LinearPart : std::uint8_t { other, qkv, attention_output, mlp_in, mlp_out };
constexpr int kLinearParts = 5;

/// Low-rank adapters (Hu et al. 2021, LoRA): the network is frozen, and linear layers of blocks compute
/// y = x·W + x·A·B. Only A (in × rank) and B (rank × out) are trained.
struct Adapters {
  int rank = 0;                                  ///< 0: no adapters, the whole network is trained
  std::array<bool, kLinearParts> has_adapter{};  ///< linear layers with adapters, by `LinearPart`
  double dropout = 0;                            ///< dropout probability of the input of A
  /// Format of the frozen matrices of blocks in memory. as_trained: the network's precision; fp8: products in fp8 read
  /// it directly; nf4: 4 bits (Dettmers et al. 2023, QLoRA), widened before each product; nvfp4: quantized once, along
  /// both dimensions, for products in nvfp4 (NVIDIA's submissions to MLPerf Training 5.1).
  enum class Base : std::uint8_t { as_trained, fp8, nf4, nvfp4 } base = Base::as_trained;

  bool has_rank() const { return rank > 0; }
};

/// Size of an element in NF4, 4.127 bits with a scale for 64 elements that is quantized itself (Dettmers et al. 2023,
/// §3).
constexpr Bytes kNf4Size{4.127 / 8};

/// Size of an element in two copies of 4 bits, each with a scale of 8 bits for 16 elements.
constexpr Bytes kNvfp4Size{2 * (0.5 + 1.0 / 16)};

constexpr Bytes stored_size(Adapters::Base base) {
  if (base == Adapters::Base::nvfp4) return kNvfp4Size;
  return base == Adapters::Base::nf4 ? kNf4Size : Bytes{1};
}

/// Exchange of keys and values in a context-parallel group. ring: blocks of keys and values go round (Liu, Zaharia &
/// Abbeel 2023, Ring Attention); all_to_all: heads are split instead of tokens while attention runs (Jacobs et al.
/// 2023, DeepSpeed-Ulysses).
enum class ContextExchange : std::uint8_t { ring, all_to_all };

/// Parts that run again in the backward pass so that their tensors need not be kept. selective: the core of attention
/// (Korthikanti et al. 2022, §5); full: whole layers, of which only the input is kept (Chen et al. 2016); operators:
/// whole layers except attention, every second matrix product and reduce-scatters (torchtitan's selective checkpointing
/// by operator).
enum class Recompute : std::uint8_t { none, selective, full, operators };
constexpr int kRecomputes = 4;
const char* name_of(Recompute);

/// Parts of a block that can be recomputed. Their outputs are freed after the forward pass, and computed again before
/// the kernel that needs them as its input (Megatron-Core's recompute_modules): norms of the residual stream; the
/// activation of routed experts; latent attention's up-projections, with rotary embedding; router, dispatch, routed and
/// shared experts; the linear layers and the activation of dense feed-forward parts, without the exchanges of tensor
/// ranks around them; the activation of dense feed-forward parts and shared experts alone (as XLA's policies that save
/// the outputs of products, jax.checkpoint_policies.dots_with_no_batch_dims_saveable).
enum class RecomputedPart : std::uint8_t { none, layernorm, moe_act, mla_up_proj, moe, mlp, mlp_act };
constexpr int kRecomputedParts = 7;

/// Split of the linear layers of an MLP over the tensor axis. pairs: the first layer of a pair by columns (outputs),
/// the second by rows (inputs), with one sum over ranks at the end of each pair and one of gradients at its beginning
/// (Shoeybi et al. 2019); columns: every layer by its outputs, which are gathered; rows: every layer by its inputs, and
/// outputs are summed; replicated: every rank computes the whole layer, and nothing is exchanged.
enum class LinearSplit : std::uint8_t { pairs, columns, rows, replicated };

/// The degrees of parallelism that split a layer: numbers of ranks.
///
/// tensor: the first linear layer of a pair is split by columns, the second by rows, attention by heads, embedding and
/// output projection by the vocabulary (Shoeybi et al. 2019). context: the tokens of a sample are split. expert: each
/// rank has count / expert of the routed experts; its peers hold other tokens.
struct LayerDegrees {
  int tensor = 1, context = 1, expert = 1;
  /// Number of ranks that split each expert (Megatron-Core's expert_tensor_parallel_size). `expert` and `expert_tensor`
  /// together cover all ranks of a pipeline stage, independently of the split of attention. A rank then routes and
  /// sends its own tokens, and the tokens of an expert's ranks are gathered around its matrix products. 0: experts are
  /// split over the tensor axis like any other layer, and each of these ranks routes and sends all of their common
  /// tokens.
  int expert_tensor = 0;
  /// Number of neighbouring context ranks that exchange heads for tokens while keys and values go round the rings of the
  /// others (Fang & Zhao 2024, arXiv:2405.07719, USP). It divides `context`. 0: `SplitRules::context_exchange` holds for
  /// all context ranks.
  int ulysses = 0;

  /// Do the context ranks exchange heads in groups, and keys and values between the groups?
  bool splits_context() const { return ulysses > 1 && ulysses < context; }
  auto operator<=>(const LayerDegrees&) const = default;
};

/// The rules by which ranks share a layer.
struct SplitRules {
  /// Norms, dropouts and residual sums are split by tokens over the tensor ranks (Korthikanti et al. 2022).
  bool sequence = false;
  ContextExchange context_exchange = ContextExchange::ring;
  /// Load of the fullest rank of the expert axis relative to the mean. The other ranks share the rest equally.
  double expert_imbalance = 1;
  /// Loads of all experts in their order, or of the ranks of the expert axis, relative to each other. They replace
  /// `expert_imbalance`. Empty: all ranks but the fullest are alike.
  std::vector<double> expert_loads = {};
  /// With `expert_loads`: index on the expert axis of the rank with these shares; −1: the fullest rank.
  int expert_rank = -1;
  /// Most rows of an expert relative to the mean (GShard's capacity factor). Further rows are dropped before they are
  /// sent. 0: no limit.
  double expert_capacity = 0;
  /// Products with masks of zeros and ones bring rows to their experts and back, and each expert computes as many rows as
  /// its capacity (Lepikhin et al. 2020, GShard, section 2.2).
  bool expert_masks = false;
  /// true: a token is sent once to each rank that has some of its experts, and their sum comes back; false: one row for
  /// each expert.
  bool one_row_a_rank = false;
  /// A forward and a backward pass of two micro-batches alternate layer by layer, so that exchanges are hidden.
  bool pairs_passes = false;
  /// Rows, and the gradients of rows that come back, are sent in fp8 with a scale for 128 elements.
  bool fp8_dispatch = false;
  /// Exchanges of input gradients overlap with the kernels of weight gradients.
  bool overlap = false;
  /// Part, 0 to 1, of sequence parallelism's all-gathers and reduce-scatters that overlaps with the matrix products
  /// next to them (Transformer Engine's user buffers). It is a stated figure, because the library's schedule is not
  /// modelled.
  double user_buffers = 0;
  Recompute recompute = Recompute::none;
  std::array<bool, kRecomputedParts> remade{};    ///< parts that are recomputed in addition to `recompute`
  LinearSplit linear_split = LinearSplit::pairs;  ///< split of MLPs; convolutional networks are split by columns
  /// Split of each layer of an MLP instead of `linear_split`: columns, rows or replicated. A layer by rows after a
  /// layer by columns forms a pair with it and takes its shares of the outputs. Between other layers every rank has the
  /// whole tensor.
  std::vector<LinearSplit> linear_splits = {};

  auto operator<=>(const SplitRules&) const = default;
};

/// Split of a layer over the ranks that share it. All ranks at one place in the mesh have the same shares.
struct Sharding : LayerDegrees, SplitRules {
  auto operator<=>(const Sharding&) const = default;

  bool folds_experts() const { return expert_tensor > 0; }
  /// Number of context ranks that exchange heads for tokens among themselves; 1: none do.
  int head_ranks() const {
    if (ulysses > 0) return ulysses;
    return context_exchange == ContextExchange::all_to_all ? context : 1;
  }
  /// Number of context ranks round which keys and values go; 1: they stay.
  int ring_ranks() const { return context / head_ranks(); }
  int expert_shards() const { return folds_experts() ? expert_tensor : tensor; }  ///< ranks that split an expert
  /// Are linear layers split in another way than in pairs?
  bool splits_linear_layers() const { return linear_split != LinearSplit::pairs || !linear_splits.empty(); }
};

/// Returns the rows that the fullest rank of the expert axis computes, relative to the mean of rows that the router
/// chose. A rank that has all experts has all rows.
double fullest_expert_rank(const Sharding&);
/// Returns the same for the rank `Sharding::expert_rank`.
double rows_of_expert_rank(const Sharding&);
/// Returns the same for each rank of the expert axis. Empty: `expert_loads` is not given, or all ranks are alike.
std::vector<double> unequal_expert_loads(const Sharding&);
/// Returns the share of the router's rows that experts compute. The rest is dropped.
double rows_within_capacity(const Sharding&);

/// Throws UserError naming `what` if another axis than tensor has more than one rank, or if an option of attention is
/// used.
void require_tensor_alone(const Sharding&, const char* what);

/// Error for a sharding that does not fit the network. It names the part of the sharding that is the cause, so that a
/// reader can point to the key of that part.
struct ShardingError : UserError {
  std::string part;    ///< "tensor", "sequence", "context", "expert", "expert_tensor", "expert_loads" or "recompute"
  std::string reason;  ///< without a place
  std::int64_t room;   ///< the ranks of that part must divide it; 0: another fault, or not known

  ShardingError(std::string sharding_part, std::string why, const Place& where = {}, std::int64_t divisible_size = 0)
      : UserError((where.file ? where.text() + ": " : "") + why),
        part(std::move(sharding_part)),
        reason(std::move(why)),
        room(divisible_size) {}
};

/// Throws UserError if a micro-batch is empty.
inline void check_micro_batch_size(std::int64_t size) {
  if (size < 1) throw UserError("micro_batch_size is " + std::to_string(size) + "; expected at least 1");
}

}  // namespace trainyard
