#pragma once
#include "models/fitted/nccl_way.hpp"

namespace trainyard {

NcclInside nccl_inside(const NcclModel&, const NcclCall&);

/// The fastest of what NCCL does between nodes (NVIDIA/nccl src/graph/tuning.cc): rings, double binary trees over the
/// nodes with a chain inside each (all-reduce), the same with the sum inside a node made in its switch (NVLS tree), sums
/// in the network (CollNet), PAT (all-gather and reduce-scatter of one GPU a node), and messages from rank to rank: of
/// these what the call's version has.
NcclCost nccl_cost_between(const NcclInside&, const NcclNetwork&, const NcclCall&);

}  // namespace trainyard
