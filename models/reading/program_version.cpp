#include "models/reading/program_version.hpp"

#include "trainyard_commit.inc"  // made by tools/commit.cmake

namespace trainyard {

std::string program_version() { return TRAINYARD_VERSION " (" TRAINYARD_COMMIT ")"; }

}  // namespace trainyard
