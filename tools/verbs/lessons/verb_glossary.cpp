#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/lessons/glossary.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/lessons/course_text.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string word_text(const GlossaryWord& word) {
  std::string text = word.word + "\n" + labelled("means", word.meaning);
  const std::pair<const char*, std::string> lines[] = {{"also", fmt::format("{}", fmt::join(word.synonyms, ", "))},
                                                       {"formula", word.formula},
                                                       {"unit", word.unit},
                                                       {"lesson", "trainyard lesson " + word.lesson}};
  for (const auto& [label, value] : lines)
    if (!value.empty()) text += labelled(label, value);
  return text;
}

std::string word_list(std::vector<GlossaryWord> words) {
  std::ranges::sort(words, [](const auto& a, const auto& b) { return a.word < b.word; });
  TextTable table;
  for (const GlossaryWord& word : words)
    table.rows.push_back({word.word, word.meaning.substr(0, word.meaning.find(". ")) +
                                         (word.meaning.find(". ") != std::string::npos ? "." : "")});
  return table.text() + fmt::format("\n{} words; trainyard glossary WORD explains one\n", words.size());
}

int glossary(const std::vector<std::string>& words) {
  Arguments arguments("glossary",
                      "Explains the words of distributed training: meaning, formula, unit, and the lesson that shows "
                      "it. Words of the answer of run are among them: MFU, trust, bottleneck, critical path.",
                      "glossary bubble");
  std::vector<std::string> terms;
  arguments.positionals("WORD", terms,
                        "a term of one word or several, for example ring all-reduce (default: a list of all terms)");
  if (!arguments.parse(words)) return kGood;
  const std::vector<GlossaryWord> all = read_glossary();
  if (terms.empty()) {
    write_atomically("-", word_list(all));
    return kGood;
  }
  write_atomically("-", word_text(find_word(all, fmt::format("{}", fmt::join(terms, " ")))));
  return kGood;
}

const RegisterVerb registered_glossary{"glossary", VerbGroup::teach,
                                       "explain the words of distributed training, with formulas", glossary};

}  // namespace
}  // namespace trainyard
