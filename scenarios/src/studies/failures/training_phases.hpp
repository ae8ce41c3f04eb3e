#pragma once
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// The beginning, the evaluations and the end of a training, each simulated, added to its time: the image pulled by all
/// nodes at once; the start as it is said; what FPGAs take to be configured; weights copied over PCIe from the host of the first rank to its GPU, and broadcast to all others; forward passes over
/// the samples of an evaluation, each rank its part; what rank 0 alone does, for which the others wait at their next step. Throws UserError for an evaluation that cannot be laid out.
void book_phases(const Scenario&, Result&);

}  // namespace trainyard
