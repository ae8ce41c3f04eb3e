#pragma once
#include <map>
#include <string>

#include "models/hardware/gpu.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/figure.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Kernels of an engine on GPUs of one architecture, launched from CUDA graphs.
struct EngineKernels {
  Seconds attention_start;    ///< shortest time of attention over the cache of one layer
  double attention_rate = 0;  ///< share of the memory bandwidth at which the cache is read
  Seconds scan_start;         ///< shortest time of the convolution and the recurrence of a state-space layer
  double scan_rate = 0;       ///< share of the memory bandwidth at which the states are read and written
  // All-reduce among the GPUs of one node: start + per_gpu · n + 2 (n−1)/n · bytes / (link_share · NVLink), of tensors up
  // to `all_reduce_most`. The library of collectives reduces larger ones.
  Seconds all_reduce_start, all_reduce_per_gpu;
  double all_reduce_link_share = 0;
  Bytes all_reduce_most;
  Seconds nvfp4_start, block_start;  ///< further time of a product in nvfp4 but for experts, and in fp8 by blocks
  Seconds block_expert;              ///< further time of a layer of experts in fp8 by blocks for each expert of the GPU
  // Experts in mxfp4 on GPUs without units for fp4, whose kernels widen weights to bf16.
  double widened_rate = 1;  ///< share of the rate of bf16 that their products reach
  Seconds widened_start;    ///< further time of a layer of such experts
  Seconds widened_token;    ///< further time of it for each token of all GPUs that share the experts
};

/// An inference engine: an entry of models/catalog/engines.
struct Engine {
  std::string name;
  std::string release;          ///< release to which the figures belong
  Seconds host_step;            ///< time of the host for each decode step, which nothing hides
  Seconds host_sequence;        ///< further host time for each running sequence
  Seconds expert_sequence;      ///< further time of a step for each running sequence of a network with experts
  Seconds host_request;         ///< time of a request outside of the steps: its text's tokens, HTTP, processes
  int most_sequences = 0;       ///< most sequences that run at once
  int batch_multiple = 1;       ///< captured graphs have batches of 1, 2, 4 and of multiples of this number
  int reserved_tokens = 1;      ///< tokens of each running sequence for which room is kept in the cache
  int most_prefill_tokens = 1;  ///< most tokens of one prefill pass
  /// Tokens of a step that decoding and chunks of prompts share. 0: prompts have passes of their own, for which decoding
  /// waits.
  int chunked_prefill = 0;
  bool prefix_sharing = true;  ///< answers to a prompt share its keys and values, which are computed once
  bool cuda_graphs = true;     ///< the host launches the kernels of a decode step together
  Seconds kernel_launch;       ///< time of the host to launch a kernel without CUDA graphs
  double memory_share = 0;     ///< share of the GPU's memory that the engine takes, unless the scenario states it
  /// `memory_share` is the share of the memory that weights and `reserved_memory` leave, not of all memory.
  bool shares_free_memory = false;
  /// An answer is admitted when the cache has room for the longest one that it may become, so that none gives its cache
  /// up. Else room for the next `reserved_tokens` tokens is enough.
  bool reserves_answers = false;
  /// Tokens choose experts of unequal popularity: that of the n-th most popular one falls as n to the power of minus this
  /// number. 0: all experts are equally popular. `balanced_skew`: that of models whose training balances experts by a bias.
  double expert_skew = 0, balanced_skew = 0;
  bool keeps_all_tokens = false;  ///< layers with a sliding window keep all tokens in the cache, and read the window
  Bytes reserved_memory;          ///< activations, graphs and buffers besides weights and cache
  Bytes state_element;            ///< size of a number of the state of a state-space layer or of linear attention
  std::map<std::string, EngineKernels> kernels;  ///< indexed by architecture of the GPU
  std::string default_kernels;                   ///< architecture whose kernels all other GPUs get
  Sources sources;

  /// Returns the kernels on this GPU: those of its architecture, or else the default ones.
  const EngineKernels& kernels_on(const Gpu&) const;
};

/// Reads and checks an entry. Throws UserError with the place.
Engine read_engine(const Node& entry);

}  // namespace trainyard
