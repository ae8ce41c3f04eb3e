#include "scenarios/src/lessons/course_reading.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>

#include "models/reading/shipped_files.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

bool letter(const std::string& text, std::size_t match) {
  return match < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[match])) != 0 || text[match] == '-' || text[match] == '_');
}

/// Returns true if an occurrence of the phrase covers this place of the text.
bool lies_in(const std::string& text, const std::string& phrase, std::size_t place) {
  const std::size_t begin = text.find(phrase, place < phrase.size() ? 0 : place - phrase.size() + 1);
  return begin != std::string::npos && begin <= place;
}

TextSection read_section(Fields& fields) {
  TextSection section{fields.text("section"), {}};
  for_each_item(fields, "shown", "texts.sections.shown", [&section](Fields& statement) {
    section.statements.push_back({statement.text("says"), statement.text("run")});
  });
  return section;
}

/// Splits "03-ring-all-reduce" into 3 and "ring-all-reduce".
std::pair<int, std::string> number_and_rest(const std::string& text) {
  const std::size_t dash = text.find('-');
  if (dash == 0 || dash > 4) throw InternalError(fmt::format("{}: a name such as 03-ring expected", text));
  return {static_cast<int>(parse_integer(text.substr(0, dash))), text.substr(dash + 1)};
}

/// Lists the first three files: "1 send-and-receive, 2 scatter-gather, 3 ring-all-reduce".
std::string first_names(const std::vector<NumberedFile>& files) {
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, files.size()); ++i)
    first.push_back(fmt::format("{} {}", files[i].number, files[i].name));
  return fmt::format("{}", fmt::join(first, ", "));
}

}  // namespace

std::vector<GlossaryWord> read_glossary() {
  const Node document = read_document(shipped_file("scenarios/lessons/glossary.yaml"));
  std::vector<GlossaryWord> words;
  for (const auto& [name, node] : document.fields) {
    Fields fields(node, "word " + name);
    GlossaryWord& word = words.emplace_back();
    word.word = name;
    word.meaning = fields.text("meaning");
    word.synonyms = fields.texts("also");
    word.unlinked = fields.texts("unlinked");
    word.not_in = fields.texts("not_in");
    word.formula = fields.text("formula", "");
    word.unit = fields.text("unit", "");
    word.source_file = fields.text("where");
    word.lesson = fields.text("lesson");
    fields.finish();
  }
  return words;
}

const GlossaryWord& find_word(const std::vector<GlossaryWord>& words, const std::string& name) {
  std::vector<std::string> names;
  const auto spaced = [](std::string text) {
    std::ranges::replace(text, '-', ' ');
    return lower_case(text);
  };
  for (const GlossaryWord& word : words) {
    names.push_back(word.word);
    const std::size_t first = names.size() - 1;
    for (const auto* more : {&word.synonyms, &word.unlinked}) names.insert(names.end(), more->begin(), more->end());
    for (std::size_t i = first; i < names.size(); ++i)
      if (spaced(names[i]) == spaced(name)) return word;
  }
  const auto near = nearest(name, names);
  throw UserError(fmt::format("trainyard glossary: there is no \"{}\"; {}", name,
                              near ? fmt::format("did you mean \"{}\"?", *near)
                                   : fmt::format("trainyard glossary lists its {} words", words.size())));
}

std::vector<FoundWord> words_in(const std::string& text, const std::vector<GlossaryWord>& words) {
  const std::string plain = lower_case(text);
  std::vector<std::pair<std::string, const GlossaryWord*>> names;
  for (const GlossaryWord& word : words) {
    names.emplace_back(word.word, &word);
    for (const std::string& also : word.synonyms) names.emplace_back(also, &word);
  }
  const auto matches = [&](const std::string& name, std::size_t from) {
    const bool inner_capitals = lower_case(name).substr(1) != name.substr(1);
    return inner_capitals ? text.find(name, from) : plain.find(lower_case(name), from);
  };
  sort_stably(names, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  std::vector<FoundWord> found;
  for (const auto& [name, word] : names) {
    if (std::ranges::any_of(found, [w = word](const FoundWord& f) { return f.word == w; })) continue;
    for (std::size_t match = 0; (match = matches(name, match)) != std::string::npos; ++match) {
      const std::size_t plural = match + name.size() < plain.size() && plain[match + name.size()] == 's' ? 1 : 0;
      const std::size_t end = match + name.size() + plural;
      const bool taken =
          std::ranges::any_of(found, [&](const FoundWord& f) { return match < f.begin + f.length && f.begin < end; });
      const bool elsewhere = std::ranges::any_of(
          word->not_in, [&, begin = match](const std::string& phrase) { return lies_in(plain, phrase, begin); });
      if (taken || elsewhere || (match > 0 && letter(plain, match - 1)) || letter(plain, end)) continue;
      found.push_back({match, end - match, word});
      break;
    }
  }
  std::ranges::sort(found, {}, &FoundWord::begin);
  return found;
}

void for_each_item(Fields& fields, const char* key, const std::string& what, const std::function<void(Fields&)>& read) {
  const std::vector<Node>* items = fields.list(key);
  if (!items) return;
  for (const Node& item : *items) {
    Fields inner(item, what);
    read(inner);
    inner.finish();
  }
}

CourseReading read_course_reading() {
  const Node document = read_document(shipped_file("scenarios/lessons/reading.yaml"));
  Fields fields(document, "the file");
  CourseReading reading;
  for_each_item(fields, "papers", "papers", [&reading](Fields& paper) {
    reading.papers.push_back({paper.text("paper"), paper.texts("lessons")});
  });
  for_each_item(fields, "texts", "texts", [&reading](Fields& text) {
    CourseText& all = reading.texts.emplace_back(CourseText{text.text("text"), {}});
    for_each_item(text, "sections", "texts.sections",
                  [&all](Fields& section) { all.sections.push_back(read_section(section)); });
  });
  fields.finish();
  return reading;
}

std::vector<NumberedFile> numbered_files(const std::string& folder) {
  std::vector<NumberedFile> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shipped_file(folder))) {
    const std::filesystem::path& file = entry.path();
    if (file.extension() != ".yaml" || file.parent_path() == shipped_file(folder)) continue;
    auto [number, name] = number_and_rest(file.stem().string());
    std::string group = number_and_rest(file.parent_path().filename().string()).second;
    std::ranges::replace(group, '-', ' ');
    files.push_back({file, number, name, group});
  }
  std::ranges::sort(files, {}, &NumberedFile::number);
  return files;
}

const NumberedFile& find_numbered(const std::vector<NumberedFile>& files, const std::string& what,
                                  const std::string& word) {
  std::vector<std::string> names;
  for (const NumberedFile& file : files) {
    if (same_name(file.name, word) || std::to_string(file.number) == word) return file;
    names.push_back(file.name);
  }
  const bool number = !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
  const auto near = nearest(word, names);
  throw UserError(fmt::format("trainyard {}: there is no {} {}; {}", what, what, word,
                              near && !number ? fmt::format("did you mean \"{}\"?", *near)
                                              : fmt::format("there are {}: {}, … (trainyard {} lists them)",
                                                            files.size(), first_names(files), what)));
}

std::string shipped_path(const NumberedFile& file) {
  return std::filesystem::relative(file.file, shipped_file("")).string();
}

}  // namespace trainyard
