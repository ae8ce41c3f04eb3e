#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/sweeps/sweep.hpp"

namespace trainyard {

/// A sweep for people: a row a point with the fields that vary, and the main results in their units, those that any point
/// has.
std::string sweep_report(const Sweep&, const std::vector<SweepPoint>&, const SweepOrder&);

}  // namespace trainyard
