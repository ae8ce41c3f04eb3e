#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/glossary.hpp"
#include "tools/verbs/lessons/lesson_run.hpp"
#include "tools/verbs/lessons/linked_text.hpp"

namespace trainyard {

/// The lesson as a page that opens without a network: text, words linked to the glossary at its end, the page or
/// picture of each run, and the JSON that --json writes.
std::string lesson_page(const LessonAnswer&, const std::vector<GlossaryWord>&);

/// Returns the main part of that page, without the glossary.
std::string lesson_markup(const LessonAnswer&, LinkedText&);

}  // namespace trainyard
