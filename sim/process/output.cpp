#include "sim/process/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "sim/error.hpp"

namespace trainyard {

void check_writable(const std::filesystem::path& path) {
  if (path == "-") return;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (path.empty() || std::filesystem::is_directory(path))
    throw UserError(fmt::format("cannot write {}: it is a folder", path.string()));
  if (!std::filesystem::is_directory(folder))
    throw UserError(fmt::format("cannot write {}: no folder {}", path.string(), folder.string()));
  if (::access(folder.c_str(), W_OK) != 0 && std::filesystem::exists(folder) && !std::filesystem::exists(path))
    throw UserError(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
}

void write_atomically(const std::filesystem::path& path, std::string_view text) {
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      throw UserError(fmt::format("cannot write to stdout: {}", std::strerror(errno)));
    return;
  }
  check_writable(path);
  // A pipe or device (/dev/null, /dev/stdout) has no "before" to keep.
  const bool special = std::filesystem::exists(path) && !std::filesystem::is_regular_file(path);
  const std::filesystem::path target =
      special ? path : std::filesystem::path(fmt::format("{}.{}.tmp", path.string(), ::getpid()));
  std::FILE* file = std::fopen(target.c_str(), "wb");
  const bool good = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  const bool closed = file && std::fclose(file) == 0;
  if (!good || !closed) {
    if (!special) std::remove(target.c_str());
    throw UserError(fmt::format("cannot write {}: {}", path.string(), std::strerror(error)));
  }
  if (!special) std::filesystem::rename(target, path);
}

}  // namespace trainyard
