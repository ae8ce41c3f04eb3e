#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// `trainyard validate training`: measured training runs against the simulator, by family; `families`: these alone.
/// Returns the exit code.
int validate_training(const std::string& json_file, bool points, const std::vector<std::string>& families);

}  // namespace trainyard
