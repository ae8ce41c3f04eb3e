#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

namespace trainyard {

/// The file in which this code lies: the program, or the Python module.
std::filesystem::path program_file();
/// A file or folder that comes with the program, by its path in the repository. It is found from where the program lies.
std::filesystem::path shipped_file(std::string_view path);
/// The YAML files of such a folder, by name; those of folders in it are not among them.
std::vector<std::filesystem::path> shipped_yaml_files(std::string_view folder);

}  // namespace trainyard
