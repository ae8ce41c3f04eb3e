#include <fmt/format.h>

#include <algorithm>

#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/pictures/step_picture.hpp"

namespace trainyard {
namespace {

using Piece = StepPicture::Piece;
using Tone = StepPicture::Tone;

constexpr double kWidth = 900, kLeft = 92, kRight = 884, kLane = 30;
constexpr double kColumn = 0.5;  // px; narrower pieces are not drawn
constexpr double kZoom = 0.1;    // share of the step that is drawn again at a larger scale
constexpr const char *kInk = "#222222", *kFaint = "#666666", *kPaper = "#f6f6f6", *kMemory = "#9fc5bf",
                     *kMemoryInk = "#1c4f49";

/// Joins bars into as many pieces as the plot's width can show, whatever the number of operations. Equal neighbours
/// become one piece, and bars that are too narrow to be visible join the piece before. Gaps below `gap` px do not
/// separate a run.
std::vector<Piece> pieces(const std::vector<StepPicture::Bar>& bars, const ChartAxis& view, double gap) {
  const double pixel = (view.highest() - view.lowest()) / (kRight - kLeft);
  std::vector<StepPicture::Bar> seen;
  for (StepPicture::Bar bar : bars) {
    bar.begin = std::max(bar.begin, view.lowest());
    bar.end = std::min(bar.end, view.highest());
    if (bar.begin < bar.end) seen.push_back(bar);
  }
  std::vector<Piece> result;
  for (const Piece& piece : joined_bars(seen, kColumn * pixel)) {
    Piece* last = result.empty() ? nullptr : &result.back();
    const bool near = last && piece.begin - last->end < gap * pixel;
    const bool narrow = piece.end - piece.begin < kColumn / 2 * pixel;
    if (near && (narrow || (last->tone == piece.tone && last->run == piece.run))) {
      last->end = piece.end;
      last->busy += piece.busy;
    } else {
      result.push_back(piece);
    }
  }
  return result;
}

class Drawing {
 public:
  explicit Drawing(const StepPicture& picture)
      : picture_(picture),
        end_(std::max(picture.end, 1e-12)),
        lanes_(kLane * static_cast<double>(picture.lanes.size())),
        communicates_(std::ranges::any_of(picture.lanes, &StepPicture::Lane::in_progress)),
        svg_(kWidth, 2 * lanes_ + (communicates_ ? 364 : 324), picture.title, picture.description) {}

  std::string draw() {
    svg_.text(16, 30, picture_.title, {18, kInk, Svg::Anchor::start, true});
    svg_.text(16, 49, picture_.subtitle, {12, kFaint});
    parts(62);
    legend(106);
    const PlotArea plot{kLeft, 148, kRight - kLeft, lanes_ + 82};
    const PlotArea zoom{kLeft, plot.top + plot.height + 66, plot.width, lanes_};
    const ChartAxis whole_step(0, end_), last((1 - kZoom) * end_, end_);
    axis(plot, whole_step);
    lanes(plot, whole_step);
    memory({kLeft, plot.top + lanes_ + 8, plot.width, 74}, whole_step);
    lens(plot, plot.x(whole_step, last.lowest()), zoom);
    axis(zoom, last);
    lanes(zoom, last);
    caption(zoom.top + zoom.height + 40);
    return svg_.finish();
  }

 private:
  const StepPicture& picture_;
  double end_, lanes_;
  bool communicates_;
  Svg svg_;

  static const char* ink_on(const Tone& tone) { return tone.dark ? "#ffffff" : kInk; }

  /// Draws the parts of the step, in the order of the legend.
  void parts(double y) {
    double x = 16;
    for (const Tone& tone : picture_.tones) {
      const double width = (kRight - 16) * tone.seconds / end_;
      if (width <= 0) continue;
      svg_.bar(x, y, width, 24, tone.fill, fmt::format("{} {:.1f} %", tone.name, 100 * tone.seconds / end_),
               ink_on(tone));
      x += width;
    }
  }

  void legend(double y) {
    std::vector<LegendEntry> entries;
    for (const Tone& tone : picture_.tones)
      if (tone.seconds > 0)
        entries.push_back({tone.fill, fmt::format("{} {}", tone.name, show(Seconds{tone.seconds}))});
      else if (tone.on_host > 0)
        entries.push_back({tone.fill, fmt::format("{} on the host {}", tone.name, show(Seconds{tone.on_host}))});
      else if (tone.beside > 0)
        entries.push_back({tone.fill, fmt::format("{} behind other work {}", tone.name, show(Seconds{tone.beside}))});
    draw_legend(svg_, 16, y, kRight, entries);
  }

  void axis(const PlotArea& area, const ChartAxis& view) {
    svg_.rect(area.left, area.top, area.width, area.height, kPaper);
    draw_x_axis(svg_, area, view, [](double t) { return fmt::format("{:.6g}", t * 1e3); });
    const double bottom = area.top + area.height;
    svg_.line(kLeft, bottom, kRight, bottom, kFaint);
    svg_.text(16, bottom + 16, "ms", {11, kFaint});
  }

  void lanes(const PlotArea& area, const ChartAxis& view) {
    double top = area.top;
    for (const StepPicture::Lane& lane : picture_.lanes) {
      svg_.text(kLeft - 8, top + 18, lane.name, {12, kInk, Svg::Anchor::end});
      std::size_t count = 0;
      for (const Piece& piece : pieces(lane.bars, view, lane.in_progress ? 6 : kColumn)) {
        const Tone& tone = picture_.tones[piece.tone];
        const std::string& fill = ++count % 2 == 0 ? tone.shade : tone.fill;
        const double x = area.x(view, piece.begin), width = area.x(view, piece.end) - x;
        // The height is the share of time in which something runs, so that a stream that mostly waits looks empty.
        const double full = kLane - 6, share = std::min(1.0, piece.busy / (piece.end - piece.begin)),
                     height = share > 0.97 ? full : share * full;
        if (height < full && lane.in_progress) svg_.rect(x, top + 3, width, full, fill, 0.3);
        svg_.rect(x, top + 3 + full - height, width, height, fill);
        svg_.bar(x, top + 3, width, full, "none", label_of(lane, piece, width - 6), ink_on(tone));
      }
      top += kLane;
    }
  }

  /// Returns the longest part of a piece's name that fits, or nothing.
  std::string label_of(const StepPicture::Lane& lane, const Piece& piece, double width) const {
    const auto run = picture_.runs.find(piece.run);
    const Tone& tone = picture_.tones[piece.tone];
    const std::string name = lane.in_progress && run != picture_.runs.end() ? run->second : tone.name;
    if (Svg::text_width(name, 11) < width) return name;
    return tone.exposed && Svg::text_width("exposed", 11) < width ? "exposed" : "";
  }

  /// Draws memory over time. Each pixel shows its highest value, so that no peak is lost.
  void memory(const PlotArea& area, const ChartAxis& view) {
    const ChartAxis bytes(0, 1.12 * std::max(picture_.capacity, picture_.peak));
    const double bottom = area.top + area.height, capacity = area.y(bytes, picture_.capacity);
    if (bytes.highest() <= 0) return;
    std::string path = fmt::format("M{} {}", Svg::number(kLeft), Svg::number(bottom));
    for (const MemoryUse::Sample& sample : thinned_memory(picture_.memory, end_, area.width))
      path += fmt::format("H{}V{}", Svg::number(area.x(view, sample.time)),
                          Svg::number(area.y(bytes, std::max(0.0, sample.bytes))));
    svg_.path(path + fmt::format("H{}V{}Z", Svg::number(kRight), Svg::number(bottom)), kMemory);
    svg_.text(kLeft - 8, area.top + area.height / 2 + 4, "memory", {12, kInk, Svg::Anchor::end});
    svg_.line(kLeft, capacity, kRight, capacity, {kInk, 1, "5 3"});
    svg_.text(kLeft + 6, capacity + 13, fmt::format("capacity {}", show(Bytes{picture_.capacity})), {11, kInk});
    svg_.text(kLeft + 156, bottom - 6, fmt::format("peak {}", show(Bytes{picture_.peak})), {11, kMemoryInk});
  }

  /// Marks the part of the picture that is drawn again below at a larger scale.
  void lens(const PlotArea& plot, double x, const PlotArea& zoom) {
    const double bottom = plot.top + plot.height;
    svg_.path(fmt::format("M{} {}H{}V{}H{}Z", Svg::number(x), Svg::number(bottom + 24), Svg::number(kRight),
                          Svg::number(zoom.top), Svg::number(kLeft)),
              kPaper);
    svg_.frame(x, plot.top, kRight - x, plot.height, kFaint);
    svg_.text(kLeft, zoom.top - 10, fmt::format("The last {:.0f} %, enlarged", 100 * kZoom),
              {13, kInk, Svg::Anchor::start, true});
  }

  void caption(double y) {
    if (!communicates_) return;
    svg_.text(16, y, "Exposed: the rank computes nothing and waits for communication.", {11, kFaint});
    svg_.text(16, y + 16,
              "Send, receive: a tinted piece is a collective in progress; its filled height is the share of time in "
              "which bytes move.",
              {11, kFaint});
  }
};

}  // namespace

std::string draw(const StepPicture& picture) { return Drawing(picture).draw(); }

}  // namespace trainyard
