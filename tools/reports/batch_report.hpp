#pragma once
#include <string>

#include "scenarios/src/studies/batch_study.hpp"

namespace trainyard {

/// Steps, samples and time to the target by batch, by the formula and by the learner.
std::string batch_report(const Scenario&, const BatchStudy&);

}  // namespace trainyard
