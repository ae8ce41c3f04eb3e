#pragma once
#include <filesystem>
#include <string_view>

namespace trainyard {

/// Writes the whole file or leaves what was there: a temporary file beside it, renamed at the end; "-" is stdout.
/// Throws UserError naming the path.
void write_whole(const std::filesystem::path&, std::string_view text);
/// Throws UserError if `write_whole` could not work there (no such folder, a folder itself, no permission).
void check_writable(const std::filesystem::path&);

}  // namespace trainyard
