#pragma once
#include "scenarios/running/failure_figures.hpp"

namespace trainyard {

struct Scenario;

/// The training's length in steps of `step`, on the coarse run. Checkpoints are simulated over the machine first, in a
/// child. Throws UserError with the place.
FailureStudy study_failures(const Scenario&, Seconds step);

}  // namespace trainyard
