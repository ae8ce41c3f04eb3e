#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/step_picture.hpp"
#include "scenarios/src/pictures/svg.hpp"

namespace trainyard {
namespace {

using Bar = StepPicture::Bar;
using Tone = StepPicture::Tone;

constexpr double kWidth = 900, kLeft = 76, kRight = 884;
constexpr double kColumn = 0.5;  // px: nothing narrower is drawn
constexpr double kZoom = 0.1;    // the part of the step that is drawn again, larger
constexpr const char *kInk = "#222222", *kFaint = "#666666", *kGrid = "#e2e2e2", *kPaper = "#f6f6f6",
                     *kMemory = "#9fc5bf", *kMemoryInk = "#1c4f49";

/// A window of time on the plot's width.
struct View {
  double from = 0, to = 1;  // s
  double x(double t) const { return kLeft + (kRight - kLeft) * std::clamp((t - from) / (to - from), 0.0, 1.0); }
};

/// What is drawn of a lane: from begin to end (px), of which `busy` px are filled.
struct Piece {
  double begin = 0, end = 0, busy = 0;
  std::size_t tone = 0;
  std::uint32_t run = 0;
};

bool same(const Piece& piece, const Bar& bar) { return piece.tone == bar.tone && piece.run == bar.run; }

/// Every half pixel goes to whoever fills most of it, and equal neighbours become one piece: as many rectangles as can
/// be told apart, whatever the number of operations. Gaps below `gap` px do not part a run.
std::vector<Piece> pieces(const std::vector<Bar>& bars, const View& view, double gap) {
  std::vector<Piece> columns, in_column, result;
  double column = -1;
  const auto close = [&] {
    const auto most = std::max_element(in_column.begin(), in_column.end(),
                                       [](const Piece& a, const Piece& b) { return a.busy < b.busy; });
    if (most != in_column.end()) columns.push_back(*most);
    in_column.clear();
  };
  for (const Bar& bar : bars) {
    if (bar.end <= view.from || bar.begin >= view.to) continue;
    const double end = view.x(bar.end);
    for (double begin = view.x(bar.begin); begin < end;) {
      const double here = std::floor(begin / kColumn), until = std::min(end, (here + 1) * kColumn);
      if (here != column) close();
      column = here;
      const auto at = std::find_if(in_column.begin(), in_column.end(), [&](const Piece& p) { return same(p, bar); });
      if (at == in_column.end())
        in_column.push_back({begin, until, until - begin, bar.tone, bar.run});
      else {
        at->end = until;
        at->busy += until - begin;
      }
      begin = until;
    }
  }
  close();
  for (const Piece& c : columns)
    if (!result.empty() && result.back().tone == c.tone && result.back().run == c.run &&
        c.begin - result.back().end < gap) {
      result.back().end = c.end;
      result.back().busy += c.busy;
    } else {
      result.push_back(c);
    }
  return result;
}

/// Round distances between ticks: 1, 2 or 5 times a power of ten, about `wanted` of them.
double tick_distance(double span, double wanted) {
  const double rough = span / wanted, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

class Drawing {
 public:
  explicit Drawing(const StepPicture& picture)
      : picture_(picture),
        end_(std::max(picture.end, 1e-12)),
        lanes_(30 * static_cast<double>(picture.lanes.size())),
        communicates_(
            std::any_of(picture.lanes.begin(), picture.lanes.end(), [](const auto& l) { return l.in_progress; })),
        height_(2 * lanes_ + (communicates_ ? 364 : 324)),
        svg_(kWidth, height_, picture.title, picture.description) {}

  std::string draw() {
    svg_.text(16, 30, picture_.title, {18, kInk, Svg::Anchor::start, true});
    svg_.text(16, 49, picture_.subtitle, {12, kFaint});
    parts(62);
    legend(106);
    const double top = 148, memory = top + lanes_ + 8, bottom = memory + 74;
    const View whole{0, end_}, last{(1 - kZoom) * end_, end_};
    grid(whole, top, bottom);
    lanes(whole, top);
    area(whole, memory, 74);
    const double zoom = bottom + 66, end = zoom + lanes_;
    lens(last, whole, top, bottom, zoom);
    axis(whole, bottom);
    grid(last, zoom, end);
    lanes(last, zoom);
    axis(last, end);
    caption(end + 40);
    return svg_.finish();
  }

 private:
  const StepPicture& picture_;
  double end_, lanes_;
  bool communicates_;
  double height_;
  Svg svg_;

  static const char* ink_on(const Tone& tone) { return tone.dark ? "#ffffff" : kInk; }

  /// The step cut into its parts, in the order of the legend.
  void parts(double y) {
    double x = 16;
    for (const Tone& tone : picture_.tones) {
      const double width = (kRight - 16) * tone.seconds / end_;
      if (width <= 0) continue;
      svg_.rect(x, y, width, 24, tone.fill);
      const std::string label = fmt::format("{} {:.1f} %", tone.name, 100 * tone.seconds / end_);
      if (Svg::text_width(label, 12) < width - 6)
        svg_.text(x + width / 2, y + 16, label, {12, ink_on(tone), Svg::Anchor::middle});
      x += width;
    }
  }

  void legend(double y) {
    double x = 16;
    for (const Tone& tone : picture_.tones) {
      if (tone.seconds <= 0 && tone.beside <= 0) continue;
      const std::string label = tone.seconds > 0
                                    ? fmt::format("{} {}", tone.name, show(Seconds{tone.seconds}))
                                    : fmt::format("{} behind other work {}", tone.name, show(Seconds{tone.beside}));
      const double width = Svg::text_width(label, 11) + 34;
      if (x + width > kRight) {
        x = 16;
        y += 18;
      }
      svg_.rect(x, y - 9, 10, 10, tone.fill);
      svg_.text(x + 15, y, label, {11, kInk});
      x += width;
    }
  }

  void grid(const View& view, double top, double bottom) {
    svg_.rect(kLeft, top, kRight - kLeft, bottom - top, kPaper);
    ticks(view, [&](double x, double) { svg_.line(x, top, x, bottom, kGrid); });
  }

  template <class Each>
  void ticks(const View& view, const Each& each) const {
    const double distance = tick_distance(view.to - view.from, 10);
    for (double i = std::max(0.0, std::ceil(view.from / distance - 1e-9)); i * distance <= view.to * (1 + 1e-12); ++i)
      each(view.x(i * distance), i * distance);
  }

  void axis(const View& view, double y) {
    svg_.line(kLeft, y, kRight, y, kFaint);
    ticks(view, [&](double x, double t) {
      svg_.line(x, y, x, y + 4, kFaint);
      if (x < kRight - 4) svg_.text(x, y + 16, fmt::format("{:.6g}", t * 1e3), {11, kInk, Svg::Anchor::middle});
    });
    svg_.text(16, y + 16, "ms", {11, kFaint});
  }

  void lanes(const View& view, double top) {
    for (const StepPicture::Lane& lane : picture_.lanes) {
      svg_.text(kLeft - 8, top + 18, lane.name, {12, kInk, Svg::Anchor::end});
      std::size_t count = 0;
      for (const Piece& piece : pieces(lane.bars, view, lane.in_progress ? 6 : kColumn)) {
        const Tone& tone = picture_.tones[piece.tone];
        const std::string& fill = ++count % 2 == 0 ? tone.shade : tone.fill;
        const double width = piece.end - piece.begin;
        // Height is the share of the time in which something runs: a stream that waits most of the time looks it.
        const double full = 24, share = std::min(1.0, piece.busy / width), height = share > 0.97 ? full : share * full;
        if (height < full && lane.in_progress) svg_.rect(piece.begin, top + 3, width, full, fill, 0.3);
        svg_.rect(piece.begin, top + 3 + full - height, width, height, fill);
        const std::string label = label_of(lane, piece, width - 6);
        if (!label.empty())
          svg_.text(piece.begin + width / 2, top + 19, label, {11, ink_on(tone), Svg::Anchor::middle});
      }
      top += 30;
    }
  }

  /// What fits of a piece's name, or nothing.
  std::string label_of(const StepPicture::Lane& lane, const Piece& piece, double width) const {
    const auto run = picture_.runs.find(piece.run);
    const Tone& tone = picture_.tones[piece.tone];
    const std::string name = lane.in_progress && run != picture_.runs.end() ? run->second : tone.name;
    if (Svg::text_width(name, 11) < width) return name;
    return tone.exposed && Svg::text_width("exposed", 11) < width ? "exposed" : "";
  }

  /// Memory over time; in each pixel its highest value, so that no peak is lost.
  void area(const View& view, double top, double height) {
    const double most = 1.12 * std::max(picture_.capacity, picture_.peak), bottom = top + height;
    if (most <= 0) return;
    const auto y = [&](double bytes) { return bottom - height * std::max(0.0, bytes) / most; };
    std::vector<double> highest(static_cast<std::size_t>(kRight - kLeft), 0);
    double now = 0;
    std::size_t at = 0;
    for (std::size_t pixel = 0; pixel < highest.size(); ++pixel) {
      highest[pixel] = now;
      const double until = kLeft + static_cast<double>(pixel + 1);
      for (; at < picture_.memory.size() && (view.x(picture_.memory[at].time) < until || pixel + 1 == highest.size());
           ++at) {
        now = picture_.memory[at].bytes;
        highest[pixel] = std::max(highest[pixel], now);
      }
    }
    std::string path = fmt::format("M{} {}", Svg::number(kLeft), Svg::number(bottom)), last;
    for (std::size_t pixel = 0; pixel < highest.size(); ++pixel) {
      const std::string level = Svg::number(y(highest[pixel]));
      if (level != last) path += fmt::format("H{}V{}", Svg::number(kLeft + static_cast<double>(pixel)), level);
      last = level;
    }
    svg_.path(path + fmt::format("H{}V{}Z", Svg::number(kRight), Svg::number(bottom)), kMemory);
    svg_.text(kLeft - 8, top + height / 2 + 4, "memory", {12, kInk, Svg::Anchor::end});
    svg_.line(kLeft, y(picture_.capacity), kRight, y(picture_.capacity), kInk, true);
    svg_.text(kLeft + 6, y(picture_.capacity) + 13, fmt::format("capacity {}", show(Bytes{picture_.capacity})),
              {11, kInk});
    svg_.text(kLeft + 156, bottom - 6, fmt::format("peak {}", show(Bytes{picture_.peak})), {11, kMemoryInk});
  }

  /// Which part of the picture is drawn again below, and larger.
  void lens(const View& last, const View& whole, double top, double bottom, double zoom) {
    const double x = whole.x(last.from);
    svg_.path(fmt::format("M{} {}H{}V{}H{}Z", Svg::number(x), Svg::number(bottom), Svg::number(kRight),
                          Svg::number(zoom), Svg::number(kLeft)),
              kPaper);
    svg_.frame(x, top, kRight - x, bottom - top, kFaint);
    svg_.text(kLeft, zoom - 10, fmt::format("The last {:.0f} %, enlarged", 100 * kZoom),
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
