#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// The file in which this code lies: the program, or the Python module.
std::filesystem::path program_file();
/// A file or folder that comes with the program, by its path in the repository. It is found from where the program lies.
std::filesystem::path shipped_file(std::string_view path);
/// The YAML files of such a folder, by name; those of folders in it are not among them.
std::vector<std::filesystem::path> shipped_yaml_files(std::string_view folder);

/// A scenario, or another file below scenarios/, that comes with the program: by its path in the repository or below
/// scenarios/, or by its name, with or without .yaml. Nothing: none is called so.
std::optional<std::filesystem::path> shipped_scenario(const std::filesystem::path& asked);
/// The file of a scenario that a user names: the file itself where there is one, or else `shipped_scenario`. Throws
/// UserError with the nearest name where the name is nobody's.
std::filesystem::path scenario_file(const std::filesystem::path& asked);

}  // namespace trainyard
