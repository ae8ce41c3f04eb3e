#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Reads `plan.precision` and `plan.fp8_scaling` into the scenario and its software. `cluster_is_set`: the GPUs of the
/// cluster are slowed down already. Throws UserError for a precision that a chip lacks.
void read_precision(Scenario&, Fields& plan, bool cluster_is_set);

/// Throws UserError if the key `precision` of a map of times differs from the plan's.
void require_precision(const Scenario&, Fields&);

/// Throws UserError for a time in which the devices would compute faster than their peak. Such a time belongs to
/// another precision or to other devices. `what` is the key of the time, `place` its place.
void require_possible(const Scenario&, Seconds time, double samples, int devices, const Place& place,
                      const std::string& what);

}  // namespace trainyard
