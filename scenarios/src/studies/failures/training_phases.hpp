#pragma once
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Simulates the beginning, the evaluations and the end of a training and adds them to its time:
/// - all nodes pull the image at the same time; the stated start time follows; FPGAs are configured;
/// - the first rank's host copies the weights over PCIe to its GPU, which broadcasts them to all others;
/// - in an evaluation, each rank makes forward passes over its part of the samples;
/// - rank 0 does its own work alone, while the others wait at their next step.
/// Throws UserError if an evaluation cannot be laid out.
void book_phases(const Scenario&, Result&);

}  // namespace trainyard
