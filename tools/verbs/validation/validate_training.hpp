#pragma once
#include <string>
#include <vector>

#include "tools/verbs/validation/validation_outputs.hpp"

namespace trainyard {

/// `trainyard validate training`: measured training runs against the simulator, by family; `families`: these alone.
/// Returns the exit code.
int validate_training(const ValidationOutputs&, const std::vector<std::string>& families);

}  // namespace trainyard
