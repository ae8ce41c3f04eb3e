#pragma once
#include <string>
#include <vector>

namespace trainyard {

/// A term of the field, from `scenarios/lessons/glossary.yaml`.
struct GlossaryWord {
  std::string word, meaning;
  std::vector<std::string> synonyms;
  std::string formula, unit;  ///< empty: the term has none
  std::string source_file;    ///< repository path of the code that models the term
  std::string lesson;         ///< name of the lesson that shows the term
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
/// that occurs. Only whole names or their plurals with "s" match; case does not matter. If names overlap, the longer
/// one has precedence.
std::vector<FoundWord> words_in(const std::string& text, const std::vector<GlossaryWord>&);

}  // namespace trainyard
