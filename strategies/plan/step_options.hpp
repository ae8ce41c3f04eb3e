#pragma once
#include <cstdint>
#include <vector>

#include "models/networks/layers/sharding.hpp"
#include "strategies/plan/mesh.hpp"

namespace trainyard {

/// What replicas share out among themselves instead of each keeping all (Rajbhandari et al. 2020, ZeRO): nothing; the
/// optimizer's state (stage 1); gradients too (stage 2); parameters too (stage 3, FSDP).
enum class ZeroStage : std::uint8_t { none, optimizer, gradients, parameters };

/// The mechanism by which replicas keep together where a plan says none.
constexpr const char* kAllReduce = "all-reduce";

/// What a plan chooses of a step and its programs read as it was chosen.
struct StepOptions {
  Mesh mesh;
  Sharding sharding;                      ///< of every layer, over tensor, context and expert
  std::vector<Sharding> stage_shardings;  ///< in place of that, where stages have widths of their own
  ZeroStage zero = ZeroStage::none;
  /// Replicas that share things out among themselves; 0: all. Fewer: each such group has all (hybrid sharding).
  int zero_group = 0;
  int prefetch = 1;     ///< stage 3: layers whose parameters are gathered ahead
  bool reshard = true;  ///< stage 3: parameters are dropped after the forward pass, and gathered again
  /// Stage 3: a layer's gradients stay whole until its last micro-batch, and are exchanged then; else after each.
  bool sync_last = false;
  bool overlap_gradients = true;   ///< exchanged while the backward pass goes on
  bool overlap_parameters = true;  ///< stages 1 and 2: gathered while the next step's forward pass goes on
  bool overlap_pipeline = false;   ///< messages between stages: nobody waits for their sending
  bool scatter_gather = false;     ///< each tensor rank sends a part of what they all have

  const Sharding& sharding_of(int stage) const {
    return stage_shardings.empty() ? sharding : stage_shardings[static_cast<std::size_t>(stage)];
  }
};

}  // namespace trainyard
