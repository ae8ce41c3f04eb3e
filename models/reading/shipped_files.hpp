#pragma once
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace trainyard {

/// Returns the file that contains this code: the program, or the Python module.
std::filesystem::path program_file();
/// Returns a file or folder that comes with the program, by its path in the repository. It is searched from the folder
/// of the program.
std::filesystem::path shipped_file(std::string_view path);
/// Returns the YAML files of such a folder, sorted by name, without those of its subfolders.
std::vector<std::filesystem::path> shipped_yaml_files(std::string_view folder);

/// Returns a scenario, or another file below scenarios/, that comes with the program. `reference` is its path in the
/// repository or below scenarios/, or its name, with or without .yaml. No value: there is no such file.
std::optional<std::filesystem::path> shipped_scenario(const std::filesystem::path& reference);
/// Returns the file of a scenario that a user names: that file if it exists, else `shipped_scenario`. Throws UserError
/// with the nearest name if there is neither.
std::filesystem::path scenario_file(const std::filesystem::path& reference);

}  // namespace trainyard
