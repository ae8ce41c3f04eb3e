#pragma once
#include <set>
#include <string>
#include <vector>

#include "scenarios/src/lessons/course_reading.hpp"
#include "tools/verbs/lessons/lesson_run.hpp"

namespace trainyard {

/// Writes text as markup with links to the glossary, and collects the linked words.
class LinkedText {
 public:
  /// `page`: the page that explains the words; empty: the page with the text has `glossary`.
  explicit LinkedText(const std::vector<GlossaryWord>& words, std::string page = "")
      : words_(words), page_(std::move(page)) {}

  std::string with_links(const std::string& text);
  /// A section that explains the words that were linked; "" if there are none.
  std::string glossary() const;

 private:
  const std::vector<GlossaryWord>& words_;
  std::string page_;
  std::set<const GlossaryWord*> used_;
};

/// The word as an item of a list of definitions. `lesson`: markup that names its lesson.
std::string definition_markup(const GlossaryWord&, const std::string& lesson);

/// The lesson as a page that opens without a network: text, words linked to the glossary at its end, the page or
/// picture of each run, and the JSON that --json writes.
std::string lesson_page(const LessonAnswer&, const std::vector<GlossaryWord>&);

/// Returns the main part of that page, without the glossary.
std::string lesson_markup(const LessonAnswer&, LinkedText&);

}  // namespace trainyard
