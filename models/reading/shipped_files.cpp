#include "models/reading/shipped_files.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "models/reading/document.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModule = ".so";

/// Returns the root of the shipped files. For an installed program it is share/trainyard beside bin/, for an installed
/// Python module share/trainyard in the same prefix as lib/python3/dist-packages/trainyard/. In a build folder it is
/// the repository.
fs::path shipped_root() {
  std::error_code ignored;
  const fs::path program = program_file(), folder = program.parent_path();
  const fs::path prefix = folder / (program.extension() == kModule ? "../../../.." : "..");
  fs::path installed = (prefix / "share/trainyard").lexically_normal();
  return fs::is_directory(installed / "models/catalog", ignored) ? installed : fs::path(TRAINYARD_SOURCE_DIR);
}

/// Returns all YAML files below scenarios/, those in fewer folders first.
std::vector<fs::path> example_files() {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (fs::recursive_directory_iterator it(shipped_file("scenarios"), ignored), end; !ignored && it != end;
       it.increment(ignored))
    if (it->path().extension() == ".yaml" || it->path().extension() == ".yml") files.push_back(it->path());
  const auto depth = [](const fs::path& file) { return std::distance(file.begin(), file.end()); };
  std::ranges::sort(files, [&](const fs::path& a, const fs::path& b) {
    return std::pair(depth(a), a.native()) < std::pair(depth(b), b.native());
  });
  return files;
}

}  // namespace

fs::path program_file() {
  Dl_info library{};
  if (::dladdr(reinterpret_cast<const void*>(&program_file), &library) != 0 &&
      fs::path(library.dli_fname).extension() == kModule)
    return library.dli_fname;
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);  // for a program, dli_fname is only the name in its command line
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
  std::ranges::sort(files);
  return files;
}

std::optional<fs::path> shipped_scenario(const fs::path& reference) {
  const fs::path path = reference.lexically_normal();
  if (path.empty() || path.is_absolute() || *path.begin() == "..") return std::nullopt;
  const fs::path folder = shipped_file("scenarios");
  const fs::path below = *path.begin() == "scenarios" ? path.lexically_relative("scenarios") : path;
  std::error_code ignored;
  for (const char* extension : {"", ".yaml"})
    if (fs::path file = folder / (below.string() + extension); fs::is_regular_file(file, ignored)) return file;
  if (path.has_parent_path()) return std::nullopt;
  for (const fs::path& file : example_files())
    if (same_name(file.filename().string(), path.string()) || same_name(file.stem().string(), path.string()))
      return file;
  return std::nullopt;
}

fs::path scenario_file(const fs::path& reference) {
  std::error_code ignored;
  if (reference.empty()) return reference;
  if (fs::exists(reference, ignored) && !fs::is_directory(reference, ignored)) return reference;
  if (const std::optional<fs::path> shipped = shipped_scenario(reference)) return *shipped;
  const bool elsewhere = reference.has_parent_path() && *reference.begin() != "scenarios";
  if (elsewhere || fs::exists(reference, ignored) || nearest_beside(reference))
    return reference;  // the reader of the file reports the error
  std::vector<std::string> names;
  for (const fs::path& file : example_files()) names.push_back(file.stem().string());
  const auto near = nearest(reference.stem().string(), names);
  throw UserError(
      fmt::format("{}: no such file, and no scenario of that name comes with the program; {}", reference.string(),
                  near ? fmt::format("did you mean \"{}\"?", *near) : "`trainyard list scenarios` names those"));
}

}  // namespace trainyard
