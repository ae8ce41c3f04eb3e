#pragma once
#include <vector>

#include "scenarios/src/answer/result.hpp"

namespace trainyard {

struct Scenario;

/// Computes what-ifs of a training with this `study` and steps of time `step`: rarer failures, of each kind and of all,
/// faster restarts and cheaper checkpoints, each by `factor`, and the best checkpoint interval.
std::vector<FailureWhatIf> failure_what_ifs(const Scenario&, Seconds step, const FailureResult& study, double factor);

/// Adds to each what-if the effect of failures on a training with its step. Checkpoints cost as much as in `study`.
void add_goodput(std::vector<WhatIf>&, const Scenario&, const FailureResult& study);

}  // namespace trainyard
