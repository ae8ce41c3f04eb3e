#include "models/reading/shipped_files.hpp"

#include <dlfcn.h>

#include <algorithm>

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModule = ".so";

/// Of what is installed share/trainyard beside bin/, or beside the lib/python3/dist-packages/trainyard/ of the Python module;
/// of what lies in its build folder the repository.
fs::path shipped_root() {
  std::error_code ignored;
  const fs::path program = program_file(), folder = program.parent_path();
  const fs::path prefix = folder / (program.extension() == kModule ? "../../../.." : "..");
  fs::path installed = (prefix / "share/trainyard").lexically_normal();
  return fs::is_directory(installed / "models/catalog", ignored) ? installed : fs::path(TRAINYARD_SOURCE_DIR);
}

}  // namespace

fs::path program_file() {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&program_file), &here) != 0 &&
      fs::path(here.dli_fname).extension() == kModule)
    return here.dli_fname;
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);  // of a program the name above is what it was called by
}

fs::path shipped_file(std::string_view path) {
  static const fs::path root = shipped_root();
  return root / path;
}

std::vector<fs::path> shipped_yaml_files(std::string_view folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(shipped_file(folder), ignored))
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace trainyard
