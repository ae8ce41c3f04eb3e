#pragma once
#include <string>

namespace trainyard {

/// `trainyard validate published`: the runs that papers tell of against the simulator. Returns the exit code.
int validate_published(const std::string& json_file, bool points);

}  // namespace trainyard
