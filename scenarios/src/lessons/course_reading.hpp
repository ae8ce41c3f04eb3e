#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// A publication, and the lessons whose subject it introduced or explains.
struct CoursePaper {
  std::string paper;
  std::vector<std::string> lessons;
};

/// A statement of a course text, and the command that shows it ("lesson gpipe", or another verb).
struct TextStatement {
  std::string says, run;
};

struct TextSection {
  std::string title;
  std::vector<TextStatement> statements;
};

/// A text about distributed training that readers may come from.
struct CourseText {
  std::string title;
  std::vector<TextSection> sections;
};

/// The file `scenarios/lessons/reading.yaml`.
struct CourseReading {
  std::vector<CoursePaper> papers;
  std::vector<CourseText> texts;
};
CourseReading read_course_reading();

/// Calls `read` with the fields of each map in a list, and refuses keys that it has not read. `what`: the name of an
/// item in errors.
void for_each_item(Fields&, const char* key, const std::string& what, const std::function<void(Fields&)>& read);

/// A YAML file that users name by its number: `scenarios/lessons/1-collectives/03-ring-all-reduce.yaml` is lesson 3,
/// called ring-all-reduce, of the group "collectives".
struct NumberedFile {
  std::filesystem::path file;
  int number = 0;
  std::string name, group;
};

/// Lists the numbered files in the subfolders of a shipped folder, in reading order.
std::vector<NumberedFile> numbered_files(const std::string& folder);
/// Finds a file by its number or name. `what`: the noun for such a file in errors, such as "lesson". Throws UserError
/// for an unknown file; the message has the nearest name, or the number of files and the first of them.
const NumberedFile& find_numbered(const std::vector<NumberedFile>&, const std::string& what, const std::string& word);
/// Returns the file's path in the repository, which commands take.
std::string shipped_path(const NumberedFile&);

}  // namespace trainyard
