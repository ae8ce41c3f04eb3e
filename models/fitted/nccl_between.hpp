#pragma once
#include <string>

#include "models/fitted/nccl_algorithm.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Collects the figures of the inside of a call's nodes.
NcclInside nccl_inside(const NcclModel&, const NcclCall&);

/// Returns the cost of the fastest algorithm of NCCL between nodes (NVIDIA/nccl src/graph/tuning.cc) that the call's
/// version has: rings, double binary trees over the nodes with a chain inside each (all-reduce), the same with sums
/// made in the node's switch (NVLS tree), sums in the network (CollNet), PAT (all-gather and reduce-scatter of one GPU
/// a node), and messages from rank to rank.
NcclCost nccl_cost_between(const NcclInside&, const NcclNetwork&, const NcclCall&);

/// Returns the time in which a host thread launches a collective of NCCL on one GPU, call after call as in nccl-tests;
/// on AMD's architectures ("cdna3") that of RCCL. Fitted by `trainyard fit nccl --launch`.
Seconds nccl_launch_time(const std::string& architecture);

/// Returns true if RCCL, not NCCL, runs on this architecture.
bool uses_rccl(const std::string& architecture);

}  // namespace trainyard
