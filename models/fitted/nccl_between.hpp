#pragma once
#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// What an operation between nodes needs to know of their inside.
struct NcclInside {
  /// By LL, LL128, Simple; of one GPU a node without rates.
  std::array<NcclProtocol, 3> protocols;
  std::array<Seconds, 3> steps;  ///< what one more GPU of a node adds to the start-up
  NcclInSwitch in_switch;        ///< from_gpus 0: the switch does not add here
  LinkKind link_kind = LinkKind::nvlink;
};
NcclInside nccl_inside(const NcclModel&, const NcclCall&);

/// The fastest of what NCCL does between nodes (NVIDIA/nccl src/graph/tuning.cc): rings, double binary trees over the
/// nodes with a chain inside each (all-reduce), the same with the sum inside a node made in its switch (NVLS tree), PAT
/// (all-gather and reduce-scatter of one GPU a node), and messages from rank to rank.
NcclCost nccl_cost_between(const NcclInside&, const NcclNetwork&, const NcclCall&);

}  // namespace trainyard
