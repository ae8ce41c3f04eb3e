#include "models/reading/shipped_files.hpp"

namespace trainyard {

std::filesystem::path shipped_file(std::string_view path) { return std::filesystem::path(TRAINYARD_SOURCE_DIR) / path; }

}  // namespace trainyard
