#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/reports/table.hpp"
#include "tools/reports/teaching/lesson_views.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kColumns = 100, kAmountColumns = 60, kMostBlocks = 40;
constexpr const char* kBold = "1";

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, characters_of(text)), ' ');
}

/// Cuts the text to `width` characters, of which the last is "…".
std::string cut_to(const std::string& text, std::size_t width) {
  if (characters_of(text) <= width) return text;
  std::size_t bytes = 0;
  for (std::size_t characters = 0; bytes < text.size(); ++bytes)
    if ((static_cast<unsigned char>(text[bytes]) & 0xc0U) != 0x80 && ++characters == width) break;
  return text.substr(0, bytes) + "…";
}

/// One character of a lane.
struct LaneLetter {
  char letter;
  Tone tone = Tone::plain;
};

/// Number of columns per unit of the axis.
double lane_scale(const LessonFrame& frame, std::size_t columns) {
  if (frame.axis != LessonFrame::Axis::slots) return static_cast<double>(columns) / frame.end;
  std::size_t longest = 1;
  double shortest = frame.end;
  for (const LessonLane& lane : frame.lanes)
    for (const LessonBar& bar : lane.bars) {
      longest = std::max(longest, bar.letter.size() + bar.label.size());
      shortest = std::min(shortest, bar.end - bar.begin);
    }
  // The shortest bar shows its word and a gap, or only its word if the lanes then fit one block.
  const double width = static_cast<double>(columns), word = static_cast<double>(longest) / shortest,
               gap = word + 1 / shortest, most = width * kMostBlocks / frame.end;
  return std::min(gap * frame.end > width && word * frame.end <= width ? word : gap, most);
}

void put_bar(std::vector<LaneLetter>& row, const LessonBar& bar, double scale, LessonFrame::Axis axis) {
  const auto begin = static_cast<std::size_t>(axis == LessonFrame::Axis::time ? std::floor(bar.begin * scale)
                                                                              : std::round(bar.begin * scale));
  auto end = static_cast<std::size_t>(std::lround(bar.end * scale));
  if (axis == LessonFrame::Axis::time) end = std::max(end, begin + 1);
  end = std::min(end, row.size());
  const std::string word = bar.letter + bar.label;
  for (std::size_t position = begin; position < end; ++position) {
    // A number that is cut short would be wrong, so a short bar shows only its letter.
    const bool shown = position - begin < word.size() && (word.size() <= end - begin || position == begin);
    const bool gap = position + 1 == end && end - begin > word.size();
    row[position] = {axis != LessonFrame::Axis::slots ? word.front()
                     : shown                          ? word[position - begin]
                     : gap                            ? ' '
                                                      : '-',
                     bar.tone};
  }
}

class TextLesson {
 public:
  TextLesson(const LessonView& view, bool colour) : view_(view), colour_(colour) {}
  std::string all() {
    text_ = in(kBold, view_.title) + "\n";
    for (const std::string& note : view_.notes) text_ += note + "\n";
    for (const LessonFrame& frame : view_.frames)
      if (!frame.drawn_only && !(frame.arrows.empty() && frame.grids.empty() && frame.lanes.empty())) show_frame(frame);
    const LessonFigures& figures = view_.figures;
    if (!figures.rows.empty() && !figures.page_only) {
      TextTable table;
      table.head = figures.head;
      table.right = figures.right;
      table.rows = figures.rows;
      text_ += "\n" + (figures.note.empty() ? "" : figures.note + "\n") + table.text();
    }
    if (!view_.sums.empty()) text_ += "\n";
    for (const std::string& sentence : view_.sums) text_ += sentence + "\n";
    return text_;
  }

 private:
  const LessonView& view_;
  bool colour_;
  std::string text_;

  std::string in(const std::string& code, const std::string& text) const {
    return colour_ && !code.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }

  void show_frame(const LessonFrame& frame) {
    if (!frame.caption.empty()) text_ += "\n" + in(kBold, frame.caption) + "\n";
    if (!frame.detail.empty()) text_ += "  " + frame.detail + "\n";
    std::vector<std::string> messages;
    for (const LessonArrow& arrow : frame.arrows) messages.push_back(arrow.words);
    lines(messages, "");
    for (const LessonGrid& grid : frame.grids) show_grid(grid);
    if (frame.lanes.empty()) return;
    lanes(frame);
    const std::string indent = frame.axis == LessonFrame::Axis::amount ? "  " : "";
    std::string legend;
    for (const LessonLegend& entry : frame.legend)
      if (!entry.key.empty())
        legend += fmt::format("{}{}: {}", legend.empty() ? indent : "   ", entry.key, entry.words);
    if (!legend.empty()) text_ += "\n" + legend + "\n";
    for (const std::string& remark : frame.remarks) text_ += indent + remark + "\n";
  }

  /// Writes the words one after the other, as many on a line as fit.
  void lines(const std::vector<std::string>& words, const std::string& before) {
    constexpr std::size_t longest = kColumns - 2;
    std::string line = before;
    bool empty = true;
    for (const std::string& word : words) {
      if (!empty && characters_of(line) + 3 + characters_of(word) > longest) {
        text_ += "  " + line + "\n";
        line.clear();
        empty = true;
      }
      line += (empty ? "" : "   ") + cut_to(word, longest);
      empty = false;
    }
    if (!empty) text_ += "  " + line + "\n";
  }

  /// Writes as many columns side by side as fit, and the others below.
  void show_grid(const LessonGrid& grid) {
    std::size_t names = 0;
    std::vector<std::size_t> widths;
    for (const std::string& column : grid.head) widths.push_back(characters_of(column));
    for (const LessonGrid::Row& row : grid.rows) {
      names = std::max(names, characters_of(row.name));
      for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], characters_of(row.cells[i].text));
    }
    for (std::size_t first = 0, end = 0; first < widths.size(); first = end) {
      std::size_t room = kColumns - 2 - names;
      for (end = first; end < widths.size() && (end == first || widths[end] + 2 <= room); ++end)
        room -= std::min(room, widths[end] + 2);
      std::string head = "  " + padded("", names);
      for (std::size_t i = first; i < end; ++i) head += "  " + padded(grid.head[i], widths[i]);
      text_ += head.substr(0, head.find_last_not_of(' ') + 1) + "\n";
      for (const LessonGrid::Row& row : grid.rows) {
        text_ += "  " + padded(row.name, names);
        for (std::size_t i = first; i < end; ++i) text_ += "  " + cell(row.cells[i], i + 1 < end ? widths[i] : 0);
        text_ += "\n";
      }
    }
    // Lists in words the stale cells, which colours show on a terminal.
    std::vector<std::string> stale;
    for (const LessonGrid::Row& row : grid.rows) {
      std::string columns;
      for (std::size_t i = 0; i < row.cells.size(); ++i)
        if (row.cells[i].tone == Tone::stale) columns += " " + grid.head[i];
      if (!columns.empty()) stale.push_back(row.name + columns);
    }
    lines(stale, "stale, from another slot: ");
  }

  std::string cell(const LessonCell& cell, std::size_t width) const {
    std::string code = style_of(cell.tone).terminal;
    if (cell.marked) code = code.empty() ? kBold : fmt::format("{};{}", kBold, code);
    return in(code, cell.text) + padded("", width - std::min(width, characters_of(cell.text)));
  }

  void lanes(const LessonFrame& frame) {
    const bool amount = frame.axis == LessonFrame::Axis::amount;
    std::vector<std::string> names;
    std::size_t width = 0;
    for (std::size_t i = 0; i < frame.lanes.size(); ++i) {
      const LessonLane& lane = frame.lanes[i];
      std::string name =
          i > 0 && frame.lanes[i - 1].actor == lane.actor ? padded("", characters_of(lane.actor)) : lane.actor;
      if (amount) name.insert(0, lane.marked ? "> " : "  ");
      if (!lane.row.empty()) name += " " + lane.row;
      width = std::max(width, characters_of(name) + 1);
      names.push_back(std::move(name));
    }
    const std::size_t columns = amount ? kAmountColumns : kColumns - width;
    const double scale = lane_scale(frame, columns);
    const auto all = static_cast<std::size_t>(std::lround(frame.end * scale));
    for (std::size_t from = 0; from < all; from += columns) {
      const std::size_t to = std::min(all, from + columns);
      text_ += all > columns ? fmt::format("\nfrom {:.6g} to {:.6g}\n", static_cast<double>(from) / scale,
                                           static_cast<double>(to) / scale)
                             : "\n";
      for (std::size_t i = 0; i < names.size(); ++i) {
        std::vector<LaneLetter> row(all, {amount ? ' ' : '.'});
        for (const LessonBar& bar : frame.lanes[i].bars) put_bar(row, bar, scale, frame.axis);
        const std::string& note = frame.lanes[i].note;
        text_ += padded(names[i], width) + letters(row, from, to) + (note.empty() ? "" : " " + note) + "\n";
      }
    }
  }

  std::string letters(const std::vector<LaneLetter>& row, std::size_t from, std::size_t to) const {
    std::string text;
    while (from < to) {
      std::string run;
      const Tone tone = row[from].tone;
      for (; from < to && row[from].tone == tone; ++from) run += row[from].letter;
      text += in(style_of(tone).terminal, run);
    }
    return text;
  }
};

}  // namespace

std::string lesson_text(const LessonView& view, bool colour) { return TextLesson(view, colour).all(); }

const ToneStyle& style_of(Tone tone) {
  static constexpr ToneStyle styles[] = {
      {"none", "", ""},           {"#f4f4f4", "", ""},      {"#dbe7f6", "part", ""},  {"#bfe5c4", "complete", "32"},
      {"#ffd9a8", "stale", "33"}, {"#e6e6e6", "", ""},      {"#7aa6dc", "", "44;97"}, {"#8fcf8f", "", "42;30"},
      {"#f2c14e", "", "43;30"},   {"#c9a7d8", "", "45;97"}, {"#f2b279", "", "41;97"}, {"#b9e3b0", "", "42;30"}};
  return styles[static_cast<std::size_t>(tone)];
}

}  // namespace trainyard
