#pragma once
#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// Returns true for GPUs of NVIDIA. Libraries of other chips are modelled as NCCL, whose rates are scaled to their links.
bool runs_nccl(const Gpu&);

/// Returns the protocols of an operation among `gpus` GPUs of one node, interpolated or extrapolated from the measured
/// numbers of GPUs. An operation that was not measured takes the curves of a similar one. `machine`: rate of a GPU over
/// the node's links if these are the limit; 0: the model's rates hold.
NcclCurve nccl_curve(const NcclModel&, NcclOperation, int gpus, BytesPerSecond machine = {});

/// Returns the time that one more GPU of a node adds to the start-up.
Seconds nccl_step(const NcclModel&, NcclOperation, int gpus, NcclProtocol NcclCurve::*);

}  // namespace trainyard
