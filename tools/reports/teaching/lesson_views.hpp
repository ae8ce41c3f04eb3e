#pragma once
#include <string>

#include "scenarios/src/lessons/lesson_view.hpp"

namespace trainyard {

/// The lesson as text for a terminal of 100 columns. `colour`: with escape codes.
std::string lesson_text(const LessonView&, bool colour);
/// All frames of the lesson in one picture (SVG).
std::string lesson_svg(const LessonView&);
/// The lesson as a page that opens without a network. The reader steps through frames with messages by buttons and
/// arrow keys, or plays them; other lessons show the picture with the figures below.
std::string lesson_html(const LessonView&);

struct ToneStyle {
  const char* fill;      ///< fill colour in pictures
  const char* css;       ///< class of a cell in pages; "": none
  const char* terminal;  ///< numbers of an escape code for terminals; "": no colour
};
const ToneStyle& style_of(Tone);

}  // namespace trainyard
