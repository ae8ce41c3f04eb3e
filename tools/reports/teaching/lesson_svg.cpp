#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/svg.hpp"
#include "tools/reports/teaching/lesson_views.hpp"

namespace trainyard {
namespace {

constexpr double kMargin = 16, kCellHeight = 20, kLine = 16, kSentence = 18, kLetter = 11, kPage = 1400,
                 kLaneHeight = 26, kThinLane = 12, kBetweenActors = 4, kTicks = 24, kLongest = 12000, kLaneWidth = 1000,
                 kAmountWidth = 600;
constexpr const char *kInk = "#222222", *kQuiet = "#666666";

/// An upper bound of the width of a text. Fonts differ, and new values are bold.
double width_of(std::string_view text, double size = kLetter) { return 1.3 * Svg::text_width(text, size); }

/// The widths of a grid's columns, pixels: the largest in all frames with this grid.
struct GridSize {
  double names = 0;
  std::vector<double> columns;
  double left(std::size_t column) const {
    double x = names;
    for (std::size_t i = 0; i < column; ++i) x += columns[i];
    return x;
  }
  double width() const { return left(columns.size()); }
};

class Drawing {
 public:
  explicit Drawing(const LessonView& view) : view_(view) {
    for (const LessonFrame& frame : view.frames) measure(frame);
    for (const LessonFrame& frame : view.frames)
      frame_width_ = std::max(frame_width_, width_of_frame(frame) + 2 * kMargin);
    columns_ = std::clamp<std::size_t>(static_cast<std::size_t>(kPage / frame_width_), 1, view.frames.size());
  }

  std::string all() {
    double width = frame_width_ * static_cast<double>(columns_), height = top() + kMargin;
    width = std::max(width, width_of(view_.title, 15) + 2 * kMargin);
    for (const auto* sentences : {&view_.notes, &view_.sums})
      for (const std::string& sentence : *sentences) width = std::max(width, width_of(sentence) + 2 * kMargin);
    for (std::size_t i = 0; i < view_.frames.size(); i += columns_) height += row_height(i);
    Svg svg(width, height + kSentence * static_cast<double>(view_.sums.size()), view_.title, view_.description);
    svg.text(kMargin, 24, view_.title, {15, kInk, Svg::Anchor::start, true});
    double y = 42;
    for (const std::string& note : view_.notes) {
      svg.text(kMargin, y, note, {kLetter, kQuiet});
      y += kLine;
    }
    y = top();
    for (std::size_t i = 0; i < view_.frames.size(); i += columns_) {
      for (std::size_t j = i; j < std::min(i + columns_, view_.frames.size()); ++j)
        draw(svg, kMargin + frame_width_ * static_cast<double>(j - i), y, view_.frames[j]);
      y += row_height(i);
    }
    for (const std::string& sentence : view_.sums) {
      svg.text(kMargin, y + kLetter, sentence, {kLetter, kInk});
      y += kSentence;
    }
    return svg.finish();
  }

 private:
  const LessonView& view_;
  std::vector<GridSize> grids_;  // indexed by position in a frame
  std::size_t arrows_ = 0;       // largest number of arrows in a frame
  bool details_ = false;
  double frame_width_ = 420 + 2 * kMargin;
  std::size_t columns_ = 1;  // columns of frames

  double top() const { return 40 + kLine * static_cast<double>(view_.notes.size()); }

  void measure(const LessonFrame& frame) {
    grids_.resize(std::max(grids_.size(), frame.grids.size()));
    for (std::size_t g = 0; g < frame.grids.size(); ++g) {
      GridSize& size = grids_[g];
      const auto fit = [&size](std::size_t column, const std::string& text) {
        size.columns.resize(std::max(size.columns.size(), column + 1), 30);
        size.columns[column] = std::max(size.columns[column], width_of(text) + 10);
      };
      for (std::size_t i = 0; i < frame.grids[g].head.size(); ++i) fit(i, frame.grids[g].head[i]);
      for (const LessonGrid::Row& row : frame.grids[g].rows) {
        if (!row.name.empty()) size.names = std::max(size.names, width_of(row.name) + 8);
        for (std::size_t i = 0; i < row.cells.size(); ++i) fit(i, row.cells[i].text);
      }
    }
    arrows_ = std::max(arrows_, frame.arrows.size());
    details_ |= !frame.detail.empty();
  }

  double head_height(const LessonFrame& frame) const {
    return (frame.caption.empty() ? 0 : details_ ? 40 : 22) + kLine * static_cast<double>(arrows_);
  }
  static double grid_height(const LessonGrid& grid) {
    return kCellHeight *
           static_cast<double>(grid.rows.size() + (grid.head.empty() ? 0 : 1) + (grid.title.empty() ? 0 : 1));
  }
  double grid_width(std::size_t grid, const LessonFrame& frame) const {
    return std::max(grids_[grid].width(), width_of(frame.grids[grid].title));
  }
  static double names_width(const LessonFrame& frame) {
    double width = 0;
    for (const LessonLane& lane : frame.lanes) width = std::max(width, width_of(lane.actor) + 8);
    return width;
  }
  /// Pixels per unit of the axis. On an axis of slots, the widest label fits into the shortest bar.
  static double lane_scale(const LessonFrame& frame) {
    if (frame.axis == LessonFrame::Axis::amount) return kAmountWidth / frame.end;
    if (frame.axis == LessonFrame::Axis::time) return kLaneWidth / frame.end;
    double widest = 14, shortest = frame.end;
    for (const LessonLane& lane : frame.lanes)
      for (const LessonBar& bar : lane.bars) {
        widest = std::max(widest, Svg::text_width(bar.label, kLetter) + 8);
        shortest = std::min(shortest, bar.end - bar.begin);
      }
    return std::min(widest / shortest, kLongest / frame.end);
  }
  static bool same_actor(const LessonFrame& frame, std::size_t i, std::size_t j) {
    return j < frame.lanes.size() && frame.lanes[i].actor == frame.lanes[j].actor;
  }
  static double lane_height(const LessonFrame& frame, std::size_t i) {
    return (i > 0 && same_actor(frame, i, i - 1)) || same_actor(frame, i, i + 1) ? kThinLane : kLaneHeight;
  }

  double width_of_frame(const LessonFrame& frame) const {
    double width = std::max(1.1 * width_of(frame.caption), width_of(frame.detail)), beside = 0, legend = 0, notes = 0;
    for (const LessonArrow& arrow : frame.arrows) width = std::max(width, width_of(arrow.words));
    for (std::size_t g = 0; g < frame.grids.size(); ++g) beside += grid_width(g, frame) + (g > 0 ? 3 * kMargin : 0);
    for (const LessonLegend& entry : frame.legend) legend += 32 + width_of(entry.words);
    for (const std::string& remark : frame.remarks) width = std::max(width, width_of(remark));
    for (const LessonLane& lane : frame.lanes) notes = std::max(notes, width_of(lane.note) + 16);
    if (!frame.lanes.empty()) width = std::max(width, names_width(frame) + frame.end * lane_scale(frame) + notes);
    return std::max({width, beside, legend});
  }
  double height_of(const LessonFrame& frame) const {
    double beside = 0, lanes = 0;
    for (const LessonGrid& grid : frame.grids) beside = std::max(beside, grid_height(grid));
    for (std::size_t i = 0; i < frame.lanes.size(); ++i)
      lanes += lane_height(frame, i) + (same_actor(frame, i, i + 1) ? 0 : kBetweenActors);
    return head_height(frame) + beside + lanes + (lanes > 0 && frame.axis != LessonFrame::Axis::amount ? kTicks : 0) +
           (frame.legend.empty() ? 0 : 28) + kLine * static_cast<double>(frame.remarks.size());
  }
  double row_height(std::size_t first) const {
    double height = 0;
    for (std::size_t i = first; i < std::min(first + columns_, view_.frames.size()); ++i)
      height = std::max(height, height_of(view_.frames[i]));
    return height + kMargin;
  }

  void draw(Svg& svg, double x, double y, const LessonFrame& frame) const {
    svg.text(x, y + 12, frame.caption, {kLetter + 1, kInk, Svg::Anchor::start, true});
    if (!frame.detail.empty()) svg.text(x, y + 28, frame.detail, {kLetter - 1, kQuiet});
    y += head_height(frame);
    double position = y - kLine * static_cast<double>(arrows_), left = x;
    for (const LessonArrow& arrow : frame.arrows) {
      svg.text(x, position + 8, arrow.words, {kLetter, kInk});
      position += kLine;
    }
    position = y;
    for (std::size_t g = 0; g < frame.grids.size(); ++g) {
      draw_grid(svg, left, y, frame.grids[g], grids_[g]);
      position = std::max(position, y + grid_height(frame.grids[g]));
      left += grid_width(g, frame) + 3 * kMargin;
    }
    if (!frame.lanes.empty()) position = draw_lanes(svg, x, position, frame);
    left = x;
    for (const LessonLegend& entry : frame.legend) {
      svg.rect(left, position + 8, 14, 14, style_of(entry.tone).fill);
      svg.text(left + 20, position + 19, entry.words, {kLetter, kInk});
      left += 32 + width_of(entry.words);
    }
    position += frame.legend.empty() ? 0 : 28;
    for (const std::string& remark : frame.remarks) {
      svg.text(x, position + 12, remark, {kLetter, kInk});
      position += kLine;
    }
  }

  static void draw_grid(Svg& svg, double x, double y, const LessonGrid& grid, const GridSize& size) {
    if (!grid.title.empty()) {
      svg.text(x, y + 12, grid.title, {kLetter, kInk, Svg::Anchor::start, true});
      y += kCellHeight;
    }
    for (std::size_t i = 0; i < grid.head.size(); ++i)
      svg.text(x + size.left(i) + size.columns[i] / 2, y + 14, grid.head[i], {kLetter, kQuiet, Svg::Anchor::middle});
    if (!grid.head.empty()) y += kCellHeight;
    for (const LessonGrid::Row& row : grid.rows) {
      if (!row.name.empty()) svg.text(x, y + 14, row.name, {kLetter, kInk});
      for (std::size_t i = 0; i < row.cells.size(); ++i) {
        const LessonCell& cell = row.cells[i];
        const double left = x + size.left(i), width = size.columns[i];
        if (cell.tone != Tone::plain) svg.rect(left + 1, y + 1, width - 2, kCellHeight - 2, style_of(cell.tone).fill);
        if (cell.marked) svg.frame(left + 1, y + 1, width - 2, kCellHeight - 2, kInk);
        svg.text(left + width / 2, y + 14, cell.text, {kLetter, kInk, Svg::Anchor::middle, cell.marked});
      }
      y += kCellHeight;
    }
  }

  /// Returns the y coordinate below the lanes.
  static double draw_lanes(Svg& svg, double x, double y, const LessonFrame& frame) {
    const double scale = lane_scale(frame), left = x + names_width(frame);
    for (std::size_t i = 0; i < frame.lanes.size(); ++i) {
      const LessonLane& lane = frame.lanes[i];
      const double height = lane_height(frame, i), base = y + height / 2 + 4;
      if (i == 0 || !same_actor(frame, i, i - 1))
        svg.text(x, base, lane.actor, {kLetter, kInk, Svg::Anchor::start, lane.marked});
      if (frame.axis != LessonFrame::Axis::amount)
        svg.rect(left, y, frame.end * scale, height, style_of(Tone::grey).fill);
      double end = left;
      for (const LessonBar& bar : lane.bars) {
        const double position = left + bar.begin * scale, width = (bar.end - bar.begin) * scale,
                     letter = height < kLaneHeight ? kLetter - 2 : kLetter;
        svg.rect(position, y, width, height, style_of(bar.tone).fill, bar.strength);
        if (frame.axis != LessonFrame::Axis::amount && height == kLaneHeight)
          svg.frame(position, y, width, height, "#ffffff");
        if (!bar.label.empty() && Svg::text_width(bar.label, letter) <= width)
          svg.text(position + width / 2, base, bar.label, {letter, "#111111", Svg::Anchor::middle});
        end = std::max(end, position + width);
      }
      if (lane.marked) svg.frame(left, y, end - left, height, kInk);
      if (!lane.note.empty()) svg.text(end + 8, base, lane.note, {kLetter, kInk});
      y += height + (same_actor(frame, i, i + 1) ? 0 : kBetweenActors);
    }
    return frame.axis == LessonFrame::Axis::amount ? y : draw_ticks(svg, left, y, frame.end, scale);
  }

  /// Draws ticks at round times. Returns the y coordinate below them.
  static double draw_ticks(Svg& svg, double left, double y, double end, double scale) {
    double step = std::pow(10.0, std::floor(std::log10(end)) - 1);
    for (int i = 0; step * scale < 50; ++i) step *= i % 3 == 1 ? 2.5 : 2;  // 1, 2, 5, 10, …
    for (int i = 0; i * step <= end * (1 + 1e-9); ++i) {
      const double x = left + i * step * scale;
      svg.line(x, y, x, y + 5, kQuiet);
      svg.text(x, y + 18, fmt::format("{:.6g}", i * step), {kLetter, kQuiet, Svg::Anchor::middle});
    }
    return y + kTicks;
  }
};

}  // namespace

std::string lesson_svg(const LessonView& view) { return Drawing(view).all(); }

}  // namespace trainyard
