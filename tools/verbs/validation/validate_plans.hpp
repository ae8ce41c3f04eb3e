#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// `trainyard validate plans`: whether the simulator puts measured plans into their order and takes the best; `families`:
/// these alone. Returns the exit code.
int validate_plans(const std::string& json_file, bool points, const std::vector<std::string>& families);

}  // namespace trainyard
