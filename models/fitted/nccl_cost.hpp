#pragma once

#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// Returns the cost of a call. Its time never falls with growing size. For a number of GPUs between two measured ones,
/// start-ups and rates are interpolated; above the largest, start-ups grow as between the last two, and rates stay.
/// Throws UserError if `gpus` is below 1 or (without `local`) not a multiple of `nodes`, or if the network's rate is
/// missing.
NcclCost nccl_cost(const NcclModel&, const NcclCall&);

}  // namespace trainyard
