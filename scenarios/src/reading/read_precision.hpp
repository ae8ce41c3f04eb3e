#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Reads `plan.precision` and `plan.fp8_scaling` into the scenario and its software. `cluster_is_set`: the GPUs of the
/// cluster are slowed down already. Throws UserError for a precision that a chip lacks.
void read_precision(Scenario&, Fields& plan, bool cluster_is_set);

/// Throws UserError if the key `precision` of a map of times differs from the plan's.
void require_precision(const Scenario&, Fields&);

}  // namespace trainyard
