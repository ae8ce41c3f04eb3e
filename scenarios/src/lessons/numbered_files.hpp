#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace trainyard {

/// A YAML file that is read by its number: `scenarios/lessons/1-collectives/03-ring-all-reduce.yaml` is lesson 3, called
/// ring-all-reduce, of the group "collectives".
struct NumberedFile {
  std::filesystem::path file;
  int number = 0;
  std::string name, group;
};

/// Those in the folders of a shipped folder, in reading order.
std::vector<NumberedFile> numbered_files(const std::string& folder);
/// By number or name. `what`: how errors call it. Throws UserError that names the nearest, or how many there are and the first ones.
const NumberedFile& find_numbered(const std::vector<NumberedFile>&, const std::string& what, const std::string& word);
/// Its path in the repository, as commands name it.
std::string shipped_path(const NumberedFile&);

}  // namespace trainyard
