#pragma once
#include <vector>

#include "scenarios/src/answer/result.hpp"

namespace trainyard {

struct Scenario;

/// Computes what-ifs of a training with this `study`, whose steps take `step`. Failures of each kind and of all kinds
/// become rarer by `factor`, restarts and checkpoints faster by `factor`, and the checkpoint interval becomes the best.
std::vector<FailureWhatIf> failure_what_ifs(const Scenario&, Seconds step, const FailureResult& study, double factor);

/// Adds to each what-if the effect of failures on a training with its step. Checkpoints cost as much as in `study`.
void add_goodput(std::vector<WhatIf>&, const Scenario&, const FailureResult& study);

}  // namespace trainyard
