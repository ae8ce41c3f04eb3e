#pragma once
#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// The protocols of an operation among that many GPUs of one node: between the measured numbers of GPUs and beyond them.
/// An operation without rows takes those of one that is made alike. `machine`: at most so much a GPU sends by the node's
/// own links, where these set the rate; 0: as the model has it.
NcclCurve nccl_curve(const NcclModel&, NcclOperation, int gpus, BytesPerSecond machine = {});

/// What one more GPU of a node adds to the start-up.
Seconds nccl_step(const NcclModel&, NcclOperation, int gpus, NcclProtocol NcclCurve::*);

}  // namespace trainyard
