#pragma once
#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// How many operations all ranks together run, by those of the first and the last rank (between them, in the trees and
/// rings there are, lie the others); of a mesh, all of them. fused: of a mesh whose kernels in a row are one operation.
double estimated_operations(const Scenario&, bool fused = false);

/// Throws UserError, at the place of the cluster or plan, where a simulation would take all memory or would never end:
/// too many operations or devices, or a step of months. Reading and showing a scenario has no such limits.
void require_simulable(const Scenario&);

}  // namespace trainyard
