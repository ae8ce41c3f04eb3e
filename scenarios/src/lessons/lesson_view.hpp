#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

/// The meaning of a colour: the contents of a slot (`plain` to `stale`), or a colour that a legend explains.
enum class Tone : std::uint8_t { plain, empty, part, complete, stale, grey, blue, green, yellow, purple, orange, pale };

/// The initial data of `rank` in `slot`, counted `count` times.
struct Contribution {
  int slot = 0, rank = 0, count = 1;
  bool operator==(const Contribution&) const = default;
};

/// The contents of one slot of a buffer.
struct SlotContent {
  std::vector<Contribution> parts;  ///< sorted by slot, then by rank; empty: no data yet
  bool divided = false;             ///< the sum is divided by the number of ranks (an average)
  bool unknown = false;             ///< a mixture whose parts cannot be recovered
  bool complete = false;            ///< the slot has the operation's final result
  bool stale = false;               ///< the data belong to another slot
  bool changed = false;             ///< the previous step changed it
  std::string text;                 ///< "a0+a2", "max(a0,a2)", "a0·a2", "(a0+a1)/2", "0→2"; "·" if empty
};

struct LessonCell {
  std::string text;
  Tone tone = Tone::plain;
  bool marked = false;  ///< the cell has just changed
};

/// A table of cells.
struct LessonGrid {
  struct Row {
    std::string name;  ///< "": the rows have no names
    std::vector<LessonCell> cells;
  };
  std::string title;
  std::vector<std::string> head;  ///< name of each column; empty: they have no names
  std::vector<Row> rows;
};

struct LessonBar {
  double begin = 0, end = 0;  ///< in the unit of the frame's axis
  std::string letter, label;  ///< text output shows both, pictures only the label
  Tone tone = Tone::blue;
  double strength = 1;  ///< opacity of the colour
};

struct LessonLane {
  std::string actor, row;  ///< `row`: name of this row if the actor has several consecutive rows; else ""
  std::vector<LessonBar> bars;
  std::string note = {};  ///< text after the bars
  bool marked = false;
};

/// A message between two actors.
struct LessonArrow {
  int from = 0, to = 0;     ///< indices into LessonView::actors
  std::string content;      ///< a short text of the message's contents
  std::string words, cost;  ///< `words`: a text of all contents; `cost`: size and route, shown if there is room
};

/// The meaning of a colour in words. `key`: the letter that stands for it in text output; "": text output has none.
struct LessonLegend {
  std::string key, words;
  Tone tone;
};

/// One picture: messages, below them grids side by side, below them lanes of bars.
struct LessonFrame {
  /// Scale of the bars. slots: each slot is wide enough for its label; time: the whole time fits the width; amount:
  /// bars show another quantity than time.
  enum class Axis : std::uint8_t { slots, time, amount };
  std::string caption = {}, detail = {};
  double share = 0;  ///< this frame's share of the time of all frames
  std::vector<LessonArrow> arrows = {};
  std::vector<LessonGrid> grids = {};
  Axis axis = Axis::slots;
  double end = 0;  ///< end of the axis
  std::vector<LessonLane> lanes = {};
  std::vector<LessonLegend> legend = {};
  std::vector<std::string> remarks = {};  ///< sentences below the legend
  bool drawn_only = false;                ///< text output leaves this frame out
};

/// A table of figures.
struct LessonFigures {
  std::string note = {};  ///< text above the table
  std::vector<std::string> head = {};
  std::vector<bool> right = {};  ///< for each column: it is aligned to the right
  std::vector<std::vector<std::string>> rows = {};
  bool page_only = false;
};

/// A participant that exchanges messages. `inner`: not a rank, but a device between the ranks, such as a switch.
struct LessonActor {
  std::string name;
  bool inner = false;
};

/// The contents of a lesson for all renderers: `lesson_text`, `lesson_svg`, `lesson_html`.
struct LessonView {
  std::string title;
  std::string description;         ///< alternative text, for readers who cannot see the picture
  std::vector<std::string> notes;  ///< lines below the title
  std::vector<LessonActor> actors = {};
  std::vector<LessonFrame> frames = {};
  LessonFigures figures = {};
  std::vector<std::string> sums = {};  ///< conclusions, one sentence each
  std::string json = {};               ///< contents of the lesson as JSON
  bool schedules = false;              ///< the JSON is that of `compare_pipelines`; its page draws it with sliders
  bool right = true;                   ///< the simulation gave the expected result
};

}  // namespace trainyard
