#pragma once
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"

namespace trainyard {

struct Scenario;

/// Rarer failures, of each kind and of all, faster restarts, cheaper checkpoints, each by `factor`, and the best
/// interval; of a training whose `study` is known, with steps of `step`.
std::vector<FailureWhatIf> failure_what_ifs(const Scenario&, Seconds step, const FailureResult& study, double factor);

/// What failures make of a training with each of these steps; checkpoints cost what they do in `study`.
void add_goodput(std::vector<WhatIf>&, const Scenario&, const FailureResult& study);

}  // namespace trainyard
