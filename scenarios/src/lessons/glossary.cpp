#include "scenarios/src/lessons/glossary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "models/reading/document.hpp"
#include "models/reading/shipped_files.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

bool letter(const std::string& text, std::size_t match) {
  return match < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[match])) != 0 || text[match] == '-' || text[match] == '_');
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
    names.insert(names.end(), word.synonyms.begin(), word.synonyms.end());
    for (std::size_t i = names.size() - 1 - word.synonyms.size(); i < names.size(); ++i)
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
    names.emplace_back(lower_case(word.word), &word);
    for (const std::string& also : word.synonyms) names.emplace_back(lower_case(also), &word);
  }
  sort_stably(names, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  std::vector<FoundWord> found;
  for (const auto& [name, word] : names) {
    if (std::ranges::any_of(found, [w = word](const FoundWord& f) { return f.word == w; })) continue;
    for (std::size_t match = 0; (match = plain.find(name, match)) != std::string::npos; ++match) {
      const std::size_t plural = match + name.size() < plain.size() && plain[match + name.size()] == 's' ? 1 : 0;
      const std::size_t end = match + name.size() + plural;
      const bool taken =
          std::ranges::any_of(found, [&](const FoundWord& f) { return match < f.begin + f.length && f.begin < end; });
      if (taken || (match > 0 && letter(plain, match - 1)) || letter(plain, end)) continue;
      found.push_back({match, end - match, word});
      break;
    }
  }
  std::ranges::sort(found, {}, &FoundWord::begin);
  return found;
}

}  // namespace trainyard
