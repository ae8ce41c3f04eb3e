#pragma once
#include <string>
#include <vector>

#include "scenarios/src/studies/failures/failure_what_ifs.hpp"

namespace trainyard {

/// What `run` prints of failures and checkpoints: goodput, what was lost to what, failures, the interval.
std::string failure_lines(const FailureResult&);
/// What `explain` prints of changes: the one that saves most first.
std::string failure_what_if_table(const FailureResult&, std::vector<FailureWhatIf>);

}  // namespace trainyard
