#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/src/pictures/step_picture.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/step_run.hpp"

namespace trainyard {
namespace {

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

ordered_json step_timeline(const StepRun& run, const MemoryUse& memory) { return TimelineText(run, memory).text(); }

}  // namespace trainyard
