#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// A word of the field: `scenarios/lessons/glossary.yaml`.
struct GlossaryWord {
  std::string word, meaning;
  std::vector<std::string> also;  ///< other words for it
  std::string formula, unit;      ///< empty: it has none
  std::string where;              ///< where it is modelled: a path of the repository
  std::string lesson;             ///< the name of the lesson that shows it
};

std::vector<GlossaryWord> read_glossary();
/// Throws UserError that names the nearest.
const GlossaryWord& find_word(const std::vector<GlossaryWord>&, const std::string& word);
/// A place in a text where a word of the glossary stands.
struct FoundWord {
  std::size_t begin = 0, length = 0;
  const GlossaryWord* word = nullptr;
};
/// The first place of each, whole words only (or their plural), whatever their case; longer ones first.
std::vector<FoundWord> words_in(const std::string& text, const std::vector<GlossaryWord>&);

}  // namespace trainyard
