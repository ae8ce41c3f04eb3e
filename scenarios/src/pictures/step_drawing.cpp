#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/pictures/step_picture.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/step_run.hpp"

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

using nlohmann::ordered_json;

constexpr std::size_t kMostRanks = 16, kMostBars = 100000;
constexpr double kTicks = 1e7;          // ticks of the whole run
constexpr double kMemoryCells = 1200;   // see thinned_memory
constexpr double kFirstCells = 131072;  // cells with which the joining of bars begins

/// Numbers names in the order in which they are first used.
class Numbering {
 public:
  std::size_t number(const std::string& name) {
    const auto [entry, fresh] = numbers_.try_emplace(name, names_.size());
    if (fresh) names_.push_back(name);
    return entry->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::string> names_;
};

/// Returns the cell length, s, that leaves at most kMostBars bars. 1e-15: no bars need to be joined.
double cell_for(const std::vector<StepPicture>& pictures, double end) {
  const auto count = [&](double cell) {
    std::size_t sum = 0;
    for (const StepPicture& p : pictures)
      for (const StepPicture::Lane& lane : p.lanes) sum += joined_bars(lane.bars, cell).size();
    return sum;
  };
  double cell = 1e-15;
  if (count(cell) <= kMostBars) return cell;
  for (cell = end / kFirstCells; count(cell) > kMostBars;) cell *= 2;
  return cell;
}

std::vector<Actor> shown_ranks(const StepRun& run, const MemoryUse& memory) {
  std::set<Actor> shown{run.last()};
  const Actor highest = memory.highest();
  if (highest < run.simulated_ranks()) shown.insert(run.rank_of(highest));
  int stage = -1;
  for (const bool all : {false, true})
    for (Actor actor = 0; actor < run.simulated_ranks() && shown.size() < kMostRanks; ++actor) {
      const Actor rank = run.rank_of(actor);
      const int own_stage = run.scenario.plan.mesh.coordinates(rank).pipeline;
      if (all || own_stage != stage) shown.insert(rank);
      stage = own_stage;
    }
  return {shown.begin(), shown.end()};
}

class TimelineText {
 public:
  TimelineText(const StepRun& run, const MemoryUse& memory)
      : run_(run), memory_(memory), end_(run.end.end.value), tick_(end_ / kTicks) {
    for (const Actor rank : shown_ranks(run, memory)) {
      ranks_.push_back(rank);
      pictures_.push_back(step_picture(run, rank, PicturePart::whole_run));
    }
    cell_ = cell_for(pictures_, end_);
  }

  ordered_json text() {
    ordered_json ranks = ordered_json::array();
    for (std::size_t i = 0; i < ranks_.size(); ++i) ranks.push_back(rank(ranks_[i], pictures_[i]));
    ordered_json out{{"tick_s", tick_}, {"end", kTicks}, {"begin", ticks(run_.begin())}, {"ranks", ranks}};
    out["path"] = path();
    if (cell_ > 1e-12) out["joined_below_s"] = cell_;
    out["names"] = names_.names();
    out["tones"] = tones_;
    return out;
  }

 private:
  const StepRun& run_;
  const MemoryUse& memory_;
  double end_, tick_, cell_ = 0;
  std::vector<Actor> ranks_;
  std::vector<StepPicture> pictures_;
  Numbering names_, tone_numbers_;
  ordered_json tones_ = ordered_json::array();

  std::int64_t ticks(double t) const { return std::llround(t / tick_); }

  std::size_t tone(const StepPicture::Tone& t) {
    const std::size_t number = tone_numbers_.number(t.name);
    if (number == tones_.size()) tones_.push_back({{"name", t.name}, {"fill", t.fill}, {"dark", t.dark}});
    return number;
  }

  /// Bars as [begin since the end of the last bar, length, tone, name or −(number of joined bars), …].
  ordered_json rank(Actor rank, const StepPicture& picture) {
    ordered_json lanes = ordered_json::array();
    for (const StepPicture::Lane& lane : picture.lanes) {
      ordered_json bars = ordered_json::array();
      std::int64_t last = 0;
      for (const StepPicture::Piece& bar : joined_bars(lane.bars, cell_)) {
        const std::int64_t begin = ticks(bar.begin), end = ticks(bar.end);
        bars.insert(bars.end(), {begin - last, end - begin, tone(picture.tones[bar.tone]),
                                 bar.bars > 1 ? -bar.bars : static_cast<int>(names_.number(run_.names[bar.name]))});
        last = end;
      }
      lanes.push_back({{"name", lane.name}, {"bars", bars}});
    }
    const Actor actor = run_.actor_of_rank(rank);
    ordered_json bytes = ordered_json::array();
    for (const MemoryUse::Sample& sample : thinned_memory(memory_.samples(actor), end_, kMemoryCells)) {
      bytes.push_back(ticks(sample.time));
      bytes.push_back(sample.bytes);
    }
    const int alike = run_.fold ? static_cast<int>(run_.fold->members(actor).size()) : 1;
    return {{"rank", rank},
            {"stands_for", alike},
            {"node", run_.scenario.cluster.node_of_gpu(rank)},
            {"stage", run_.scenario.plan.mesh.coordinates(rank).pipeline},
            {"capacity_bytes", picture.capacity},
            {"peak_bytes", picture.peak},
            {"lanes", lanes},
            {"memory", bytes}};
  }

  /// Pieces as [begin since the end of the last piece, length, resource, shown rank or −1, its lane, …].
  ordered_json path() {
    Numbering resources;
    struct PathPiece {
      std::int64_t begin, end, resource, rank, lane;
    };
    std::vector<PathPiece> pieces;
    for (const PathStep& step : named_path(run_)) {
      const OpRecord& record = run_.timeline.records()[step.id - 1];
      const auto shown = std::ranges::find(ranks_, run_.rank_of(record.actor));
      PathPiece piece{ticks(step.begin), ticks(step.end), static_cast<std::int64_t>(resources.number(step.resource)),
                      -1, -1};
      if (record.actor < run_.simulated_ranks() && shown != ranks_.end()) {
        piece.rank = shown - ranks_.begin();
        piece.lane = lane_of(pictures_[static_cast<std::size_t>(piece.rank)], run_.streams.at(record.stream));
      }
      PathPiece* last = pieces.empty() ? nullptr : &pieces.back();
      const bool tiny = last && piece.end - last->begin < ticks(cell_);
      if (last && last->rank == piece.rank && last->lane == piece.lane && (tiny || last->resource == piece.resource))
        last->end = piece.end;
      else
        pieces.push_back(piece);
    }
    ordered_json flat = ordered_json::array();
    std::int64_t last = 0;
    for (const PathPiece& p : pieces) {
      for (const std::int64_t number : {p.begin - last, p.end - p.begin, p.resource, p.rank, p.lane})
        flat.push_back(number);
      last = p.end;
    }
    return {{"resources", resources.names()}, {"pieces", flat}};
  }

  static std::int64_t lane_of(const StepPicture& picture, const std::string& stream) {
    for (std::size_t i = 0; i < picture.lanes.size(); ++i)
      if (picture.lanes[i].name == stream) return static_cast<std::int64_t>(i);
    return -1;
  }
};

}  // namespace

std::string draw(const StepPicture& picture) { return Drawing(picture).draw(); }

ordered_json step_timeline(const StepRun& run, const MemoryUse& memory) { return TimelineText(run, memory).text(); }

}  // namespace trainyard
