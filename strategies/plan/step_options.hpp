#pragma once
#include <cstdint>
#include <vector>

#include "models/networks/layers/sharding.hpp"
#include "strategies/plan/mesh.hpp"

namespace trainyard {

/// The states that replicas shard among themselves (Rajbhandari et al. 2020, ZeRO): none; the optimizer's state (stage
/// 1); gradients too (stage 2); parameters too (stage 3, FSDP).
enum class ZeroStage : std::uint8_t { none, optimizer, gradients, parameters };

/// The default mechanism that keeps replicas together.
constexpr const char* kAllReduce = "all-reduce";

/// The sharing of states among replicas. A search may choose all of it.
struct StateSharing {
  ZeroStage zero = ZeroStage::none;
  /// Number of replicas that shard states among themselves; 0: all. If fewer, each such group has all states (hybrid
  /// sharding).
  int zero_group = 0;
  bool reshard = true;  ///< stage 3: parameters are dropped after the forward pass and gathered again
  /// Stage 3. True: a layer's gradients stay unsharded until its last micro-batch and are exchanged then; false: they
  /// are exchanged after each.
  bool sync_last = false;

  bool operator==(const StateSharing&) const = default;
};

/// The options of a step that a plan chooses, and that programs read directly.
struct StepOptions : StateSharing {
  Mesh mesh;
  Sharding sharding;                      ///< sharding of every layer over tensor, context and expert ranks
  std::vector<Sharding> stage_shardings;  ///< replaces `sharding` if stages have widths of their own; by stage
  int prefetch = 1;                       ///< stage 3: number of layers whose parameters are gathered ahead
  bool overlap_gradients = true;          ///< gradients are exchanged during the backward pass
  bool overlap_parameters = true;  ///< stages 1 and 2: parameters are gathered during the next step's forward pass
  bool overlap_copies = true;      ///< groups of ZeRO sum their gradients during the backward pass; false: it waits
  bool overlap_pipeline = false;   ///< a stage goes on while its messages to other stages are sent
  /// True if a step ends when its micro-batches have left the pipeline. False: the micro-batches of the next step follow
  /// at once, and a backward pass uses the weights of its forward pass (Narayanan et al. 2019, PipeDream: weight
  /// stashing).
  bool flushes = true;
  bool scatter_gather = false;  ///< tensor ranks that have the same output each send a part of it to the next stage

  const Sharding& sharding_of(int stage) const { return stage_shardings.empty() ? sharding : stage_shardings[stage]; }
};

}  // namespace trainyard
