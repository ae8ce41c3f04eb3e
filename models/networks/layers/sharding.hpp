#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace trainyard {

/// How the ranks of a context-parallel group see each other's keys and values. ring: blocks of keys and values go round
/// (Liu, Zaharia & Abbeel 2023, Ring Attention); all_to_all: heads are split instead of tokens while attention runs
/// (Jacobs et al. 2023, DeepSpeed-Ulysses).
enum class ContextExchange : std::uint8_t { ring, all_to_all };

/// What is run again in the backward pass instead of kept. selective: the core of attention (Korthikanti et al. 2022,
/// §5); full: whole layers, of which the input alone is kept (Chen et al. 2016); operators: whole layers but for
/// attention, every second matrix product and reduce-scatters (torchtitan's selective checkpointing by operator).
enum class Recompute : std::uint8_t { none, selective, full, operators };
constexpr int kRecomputes = 4;
const char* name_of(Recompute);

/// Parts of a block whose outputs go after the forward pass, and are made again before the kernel that keeps them as its
/// input (Megatron-Core's recompute_modules): norms of the residual stream; the activation of routed experts; latent
/// attention's projections up, with rotary embedding.
enum class Remade : std::uint8_t { none, layernorm, moe_act, mla_up_proj };
constexpr int kRemade = 4;

/// How the linear layers of an MLP are split over the tensor axis. pairs: the first by columns (outputs), the second by
/// rows (inputs), one sum over ranks at the end of each pair and one of gradients at its beginning (Shoeybi et al.
/// 2019); columns: every layer by its outputs, which are gathered; rows: every layer by its inputs, and outputs are
/// summed; replicated: every rank does all of it, and nothing is exchanged.
enum class LinearSplit : std::uint8_t { pairs, columns, rows, replicated };

/// How a layer is split over the ranks that share it; all ranks of one place in the mesh have the same shares.
///
/// tensor: the first linear layer of a pair by columns, the second by rows, attention by heads, embedding and output
/// projection by the vocabulary (Shoeybi et al. 2019). sequence: norms, dropouts and residual sums by tokens over the
/// same ranks (Korthikanti et al. 2022). context: tokens of a sample. expert: routed experts, of which a rank has
/// count / expert; its peers hold other tokens.
struct Sharding {
  int tensor = 1;
  bool sequence = false;
  int context = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  int expert = 1;
  /// Ranks that split each expert (Megatron-Core's expert_tensor_parallel_size): with `expert` they lie over all ranks of
  /// a pipeline stage, whatever these do in attention. A rank then routes and sends its own tokens, and those of an
  /// expert's ranks are gathered around its matrix products. 0: experts are split over the tensor axis like any other
  /// layer, whose ranks each route and send all of their common tokens.
  int expert_tensor = 0;
  /// The load of the fullest rank of the expert axis over the mean; the others share what is left.
  double expert_imbalance = 1;
  /// An expert takes at most this times the mean (GShard's capacity factor); what is more is dropped before it is sent.
  /// 0: no limit.
  double expert_capacity = 0;
  /// A token is sent once to each rank that has some of its experts, and comes back as their sum; else a row for each.
  bool one_row_a_rank = false;
  bool fp8_dispatch =
      false;  ///< rows, and gradients of what comes back, are sent in fp8, with a scale for 128 elements
  /// Exchanges of gradients by the input go on beside the kernels that make gradients of weights.
  bool overlap = false;
  /// The part, 0 to 1, of sequence parallelism's all-gathers and reduce-scatters that the library hides behind the matrix
  /// products next to them (Transformer Engine's user buffers): as stated, since how it cuts the two up is not modelled.
  double user_buffers = 0;
  Recompute recompute = Recompute::none;
  std::array<bool, kRemade> remade{};  ///< besides what `recompute` says; not within what it runs again as a whole
  LinearSplit linear_split = LinearSplit::pairs;  ///< of MLPs; convolutional networks are split by columns
  /// Of an MLP's layers one by one, in the place of that: columns, rows or replicated. A layer by rows takes what one by
  /// columns before it hands on as it is (they are a pair); elsewhere every rank has all of what lies between two layers.
  std::vector<LinearSplit> linear_splits = {};

  bool folds_experts() const { return expert_tensor > 0; }
  int expert_shards() const { return folds_experts() ? expert_tensor : tensor; }  ///< parts of an expert's columns
  /// Were linear layers split in any way but the usual one?
  bool splits_linear_layers() const { return linear_split != LinearSplit::pairs || !linear_splits.empty(); }
};

/// Rows that the fullest rank of the expert axis computes, over the mean of rows that the router chose. A rank that has
/// all experts has all rows.
double fullest_expert_rank(const Sharding&);
/// Share of the router's rows that experts take: the rest is dropped.
double rows_within_capacity(const Sharding&);

/// Throws UserError naming `what` where anything but the tensor axis has more than one rank, or attention is spoken of.
void require_tensor_alone(const Sharding&, const char* what);

}  // namespace trainyard
