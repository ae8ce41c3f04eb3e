#pragma once
#include <string>
#include <vector>

#include "tools/verbs/validation/validation_outputs.hpp"

namespace trainyard {

/// `trainyard validate training` and `mlperf`: measured training runs against the simulator, by family; `folder`: of
/// scenarios/measured; `families`: these alone. Returns the exit code.
int validate_training(const ValidationOutputs&, const std::string& folder, const std::vector<std::string>& families);

}  // namespace trainyard
