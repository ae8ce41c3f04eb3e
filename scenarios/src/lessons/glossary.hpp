#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// A term of the field, from `scenarios/lessons/glossary.yaml`.
struct GlossaryWord {
  std::string word, meaning;
  std::vector<std::string> also;  ///< synonyms
  std::string formula, unit;      ///< empty: the term has none
  std::string where;              ///< path in the repository of the code that models it
  std::string lesson;             ///< the name of the lesson that shows it
};

std::vector<GlossaryWord> read_glossary();
/// Throws UserError for an unknown word and names the nearest one.
const GlossaryWord& find_word(const std::vector<GlossaryWord>&, const std::string& word);
/// An occurrence of a glossary word in a text.
struct FoundWord {
  std::size_t begin = 0, length = 0;
  const GlossaryWord* word = nullptr;
};
/// Finds the first occurrence of each glossary word. Only whole words or their plurals match; case does not matter.
/// Longer words have precedence over shorter ones.
std::vector<FoundWord> words_in(const std::string& text, const std::vector<GlossaryWord>&);

}  // namespace trainyard
