#include "tools/verbs/lessons/linked_text.hpp"

#include <fmt/format.h>

#include "models/reading/xml_text.hpp"

namespace trainyard {
namespace {

std::string word_mark(const GlossaryWord& word) {
  std::string mark = "word-" + word.word;
  for (char& c : mark)
    if (c == ' ') c = '-';
  return mark;
}

}  // namespace

std::string definition_markup(const GlossaryWord& word, const std::string& lesson) {
  std::string html = fmt::format("<dt id=\"{}\"><b>{}</b></dt><dd>{}", word_mark(word), xml_escaped(word.word),
                                 xml_escaped(word.meaning));
  if (!word.formula.empty()) html += fmt::format(" <code>{}</code>", xml_escaped(word.formula));
  if (!word.unit.empty()) html += fmt::format(" ({})", xml_escaped(word.unit));
  if (!word.synonyms.empty())
    html += fmt::format(" <span class=\"quiet\">Also: {}.</span>",
                        xml_escaped(fmt::format("{}", fmt::join(word.synonyms, ", "))));
  return html + fmt::format(" <span class=\"quiet\">Lesson: {}.</span></dd>\n", lesson);
}

std::string LinkedText::with_links(const std::string& text) {
  std::string html;
  std::size_t from = 0;
  for (const FoundWord& found : words_in(text, words_)) {
    used_.insert(found.word);
    html += xml_escaped(text.substr(from, found.begin - from)) +
            fmt::format("<a href=\"{}#{}\">{}</a>", page_, word_mark(*found.word),
                        xml_escaped(text.substr(found.begin, found.length)));
    from = found.begin + found.length;
  }
  return html + xml_escaped(text.substr(from));
}

std::string LinkedText::glossary() const {
  std::string html;
  for (const GlossaryWord* word : used_) html += definition_markup(*word, xml_escaped(word->lesson));
  return html.empty() ? "" : "<section><h2>Words</h2>\n<dl>\n" + html + "</dl></section>\n";
}

}  // namespace trainyard
