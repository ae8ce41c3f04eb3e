#pragma once
#include <string>

namespace trainyard {

/// Returns the version and the commit from which the program was built: "0.9.0 (1234abcdef)".
std::string program_version();

}  // namespace trainyard
