#pragma once
#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// Never falls with growing size. Numbers of GPUs between the measured ones lie between these; above, start-ups grow as
/// between the last two measured, rates stay. Throws UserError where `gpus` is below 1 or, without `local`, not a
/// multiple of `nodes`, or the network is missing.
NcclCost nccl_cost(const NcclModel&, const NcclCall&);

}  // namespace trainyard
