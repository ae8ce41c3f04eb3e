#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

/// What a colour means: contents of a slot first, then plain colours that a legend explains.
enum class Tone : std::uint8_t { plain, empty, part, complete, stale, grey, blue, green, yellow, purple, orange, pale };

struct LessonCell {
  std::string text;
  Tone tone = Tone::plain;
  bool marked = false;  ///< has just changed
};

/// Rows by columns.
struct LessonGrid {
  struct Row {
    std::string name;  ///< "": the rows have none
    std::vector<LessonCell> cells;
  };
  std::string title;
  std::vector<std::string> head;  ///< by column; none: they have no names
  std::vector<Row> rows;
};

struct LessonBar {
  double begin = 0, end = 0;  ///< in the unit of the frame's axis
  std::string letter, label;  ///< text has both, pictures the label alone
  Tone tone = Tone::blue;
  double strength = 1;  ///< of the colour
};

struct LessonLane {
  std::string actor, row;  ///< row: one of several of the actor, which follow each other; else ""
  std::vector<LessonBar> bars;
  std::string note = {};  ///< behind the bars
  bool marked = false;
};

/// A message between two of LessonView::actors.
struct LessonArrow {
  int from = 0, to = 0;
  std::string content;      ///< what it carries, as short as possible
  std::string words, cost;  ///< all of it; where there is room, its size and way too
};

/// A colour in words; `key`: the letter that stands for it in text, "": text has none.
struct LessonLegend {
  std::string key, words;
  Tone tone;
};

/// One picture: messages, then grids beside each other, then lanes of bars.
struct LessonFrame {
  /// slots: bars are wide enough for their labels; time: all of it fits; amount: bars of something else than time.
  enum class Axis : std::uint8_t { slots, time, amount };
  std::string caption = {}, detail = {};
  double share = 0;  ///< of the time of all frames
  std::vector<LessonArrow> arrows = {};
  std::vector<LessonGrid> grids = {};
  Axis axis = Axis::slots;
  double end = 0;  ///< of the axis
  std::vector<LessonLane> lanes = {};
  std::vector<LessonLegend> legend = {};
  std::vector<std::string> remarks = {};  ///< below the legend
  bool drawn_only = false;                ///< text says it otherwise
};

/// Figures by row.
struct LessonFigures {
  std::string note = {};  ///< above
  std::vector<std::string> head = {};
  std::vector<bool> right = {};  ///< columns that are aligned to the right
  std::vector<std::vector<std::string>> rows = {};
  bool page_only = false;
};

/// Who exchanges messages; `inner`: not a rank but what stands between them.
struct LessonActor {
  std::string name;
  bool inner = false;
};

/// What any lesson shows, for all renderers: `lesson_text`, `lesson_svg`, `lesson_html`.
struct LessonView {
  std::string title;
  std::string description;         ///< read out to those who cannot see the picture
  std::vector<std::string> notes;  ///< below the title
  std::vector<LessonActor> actors = {};
  std::vector<LessonFrame> frames = {};
  LessonFigures figures = {};
  std::vector<std::string> sums = {};  ///< what it comes to, a sentence each
  std::string json = {};               ///< the same as data
  bool right = true;                   ///< the simulation gave what it had to
};

}  // namespace trainyard
