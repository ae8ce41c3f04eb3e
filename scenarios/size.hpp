#pragma once
#include "scenarios/scenario.hpp"

namespace trainyard {

/// How many operations all ranks together run, by those of the first and the last rank (between them, in the trees and
/// rings there are, lie the others).
double estimated_operations(const Scenario&);

/// Throws UserError, at the place of the cluster or plan, where a simulation would take all memory or would never end:
/// too many operations or devices, or a step of months. Reading and showing a scenario has no such limits.
void require_simulable(const Scenario&);

}  // namespace trainyard
