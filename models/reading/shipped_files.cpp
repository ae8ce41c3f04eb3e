#include "models/reading/shipped_files.hpp"

#include <algorithm>

namespace trainyard {
namespace {

namespace fs = std::filesystem;

/// Of an installed program ../share/trainyard beside it; of one in its build folder the repository.
fs::path shipped_root() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  fs::path installed = program.parent_path().parent_path() / "share/trainyard";
  return fs::is_directory(installed / "models/catalog", ignored) ? installed : fs::path(TRAINYARD_SOURCE_DIR);
}

}  // namespace

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
