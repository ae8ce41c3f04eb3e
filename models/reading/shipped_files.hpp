#pragma once
#include <filesystem>
#include <string_view>

namespace trainyard {

/// A file or folder that comes with the program, by its path in the repository. It is found from where the program lies.
std::filesystem::path shipped_file(std::string_view path);

}  // namespace trainyard
