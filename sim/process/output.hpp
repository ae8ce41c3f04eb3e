#pragma once
#include <filesystem>
#include <string_view>

namespace trainyard {

/// Writes the whole file, or leaves the old one untouched: a temporary file beside it is renamed at the end. "-" is
/// stdout.
/// Throws UserError naming the path.
void write_atomically(const std::filesystem::path&, std::string_view text);
/// Throws UserError if `write_atomically` could not work there (no such folder, a folder itself, no permission).
void check_writable(const std::filesystem::path&);

}  // namespace trainyard
