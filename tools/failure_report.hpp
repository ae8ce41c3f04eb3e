#pragma once
#include <string>

#include "scenarios/failure_study.hpp"

namespace trainyard {

/// What `run` prints of failures and checkpoints: goodput, what was lost to what, failures, the interval.
std::string failure_lines(const FailureStudy&);

}  // namespace trainyard
