#include "tools/verbs/lessons/lesson_page.hpp"

#include <fmt/format.h>

#include "models/reading/xml_text.hpp"
#include "tools/reports/html_page.hpp"

namespace trainyard {
namespace {

std::string word_mark(const GlossaryWord& word) {
  std::string mark = "word-" + word.word;
  for (char& c : mark)
    if (c == ' ') c = '-';
  return mark;
}

std::string list_section(const std::string& title, const std::vector<LessonChange>& texts, LinkedText& linked) {
  if (texts.empty()) return "";
  std::string html = fmt::format("<section><h2>{}</h2>\n<ul>\n", title);
  for (const LessonChange& text : texts) {
    html += "<li>" + linked.with_links(text.text);
    if (!text.command.empty())
      html += fmt::format("<pre class=\"command\">trainyard {}</pre>", xml_escaped(text.command));
    html += "</li>\n";
  }
  return html + "</ul></section>\n";
}

/// The sentences that hold.
std::vector<LessonChange> true_sentences(const std::vector<JudgedClaim>& claims) {
  std::vector<LessonChange> texts;
  for (const JudgedClaim& claim : claims)
    if (claim.holds()) texts.push_back({claim.text});
  return texts;
}

std::string run_section(const LessonRun& run, const CommandAnswer& answer) {
  std::string html = fmt::format("<section><pre class=\"command\">$ trainyard {}</pre>\n", xml_escaped(run.command));
  if (run.picture == "html")
    html += fmt::format(
        "<iframe title=\"{}\" style=\"width:100%;border:0\" "
        "onload=\"this.style.height=this.contentDocument.documentElement.scrollHeight+24+'px'\" "
        "srcdoc=\"{}\"></iframe>\n",
        xml_escaped(run.command), escaped_lines(answer.picture));
  else if (!run.picture.empty())
    html += "<div class=\"machine scroll\">" + answer.picture.substr(answer.picture.find("<svg")) + "</div>\n";
  else if (!answer.screen.empty())
    html += "<pre>" + escaped_lines(answer.screen) + "</pre>\n";
  return html + "</section>\n";
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

std::string lesson_markup(const LessonAnswer& answer, LinkedText& linked) {
  const Lesson& lesson = answer.lesson;
  std::string body = fmt::format("<h1>{}. {}</h1>\n<p class=\"quiet\">Lesson {} of {}</p>\n<p>{}</p>\n",
                                 lesson.file.number, xml_escaped(lesson.title), lesson.file.number,
                                 xml_escaped(lesson.file.group), linked.with_links(lesson.shows));
  std::vector<LessonChange> contradictions;
  for (const std::string& sentence : answer.contradictions()) contradictions.push_back({sentence});
  body += list_section("Not so in this run", contradictions, linked);
  body += list_section("What this run says", true_sentences(answer.says), linked);
  for (std::size_t i = 0; i < lesson.runs.size(); ++i) body += run_section(lesson.runs[i], answer.answers[i]);
  body += list_section("What to look at", true_sentences(answer.look), linked);
  return body + list_section("What to change", lesson.change, linked);
}

std::string lesson_page(const LessonAnswer& answer, const std::vector<GlossaryWord>& words) {
  LinkedText linked(words);
  std::string body = "<main>\n" + lesson_markup(answer, linked);
  body += linked.glossary() + "</main>\n";
  nlohmann::ordered_json data = answer.json;
  return html_text({answer.lesson.title, std::move(body), "data", &data, {}});
}

}  // namespace trainyard
