#pragma once
#include <string>

namespace trainyard {

/// "0.9.0 (1234abcdef)": the version, and the commit from which it was built.
std::string program_version();

}  // namespace trainyard
