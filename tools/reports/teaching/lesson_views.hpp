#pragma once
#include <string>

#include "scenarios/src/lessons/lesson_view.hpp"

namespace trainyard {

/// For a terminal of 100 columns; `colour`: with its escape codes.
std::string lesson_text(const LessonView&, bool colour);
/// All frames in one picture.
std::string lesson_svg(const LessonView&);
/// One page that stands alone. Frames with messages are stepped through by buttons and arrow keys, or played; others are
/// the picture with the figures below.
std::string lesson_html(const LessonView&);

struct ToneStyle {
  const char* fill;      ///< in pictures
  const char* css;       ///< class of a cell in pages; "": none
  const char* terminal;  ///< the numbers of an escape code; "": as it is
};
const ToneStyle& style_of(Tone);

}  // namespace trainyard
