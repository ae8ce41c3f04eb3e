#pragma once
#include <string>
#include <vector>

#include "scenarios/running/result.hpp"

namespace trainyard {

struct Scenario;

/// One change of what fails or of what is done about it, and what running the training again gives.
struct FailureWhatIf {
  std::string change;
  double goodput = 1, effective_step_time = 0;
};

/// Rarer failures, of each kind and of all, faster restarts, cheaper checkpoints, each by `factor`, and the best
/// interval; of a training whose `study` is known, with steps of `step`.
std::vector<FailureWhatIf> failure_what_ifs(const Scenario&, Seconds step, const FailureStudy& study, double factor);

/// What failures make of a training with each of these steps; checkpoints cost what they do in `study`.
void add_goodput(std::vector<WhatIf>&, const Scenario&, const FailureStudy& study);

}  // namespace trainyard
