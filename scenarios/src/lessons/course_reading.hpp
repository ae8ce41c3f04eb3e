#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// A term of the field, from `scenarios/lessons/glossary.yaml`.
struct GlossaryWord {
  std::string word, meaning;
  std::vector<std::string> synonyms;
  std::vector<std::string> unlinked;  ///< further synonyms, which have other meanings in texts and are no links there
  std::vector<std::string> not_in;    ///< phrases in which the word has another meaning
  std::string formula, unit;          ///< empty: the term has none
  std::string source_file;            ///< repository path of the code that models the term
  std::string lesson;                 ///< name of the lesson that shows the term
};

std::vector<GlossaryWord> read_glossary();
/// Throws UserError for an unknown word and names the nearest one.
const GlossaryWord& find_word(const std::vector<GlossaryWord>&, const std::string& word);
/// An occurrence of a glossary word in a text.
struct FoundWord {
  std::size_t begin = 0, length = 0;
  const GlossaryWord* word = nullptr;
};
/// Finds one occurrence of each glossary word: the first one of the longest of its names (the word and its synonyms)
/// that occurs. Only whole names or their plurals with "s" match. Case matters only in names with capitals beyond the
/// first letter (ZeRO). Phrases in which a word has another meaning do not match. If names overlap, the longer one has
/// precedence.
std::vector<FoundWord> words_in(const std::string& text, const std::vector<GlossaryWord>&);

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
