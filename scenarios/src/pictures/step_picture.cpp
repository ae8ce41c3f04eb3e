#include "scenarios/src/pictures/step_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "sim/error.hpp"
#include "sim/process/output.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/step/compute_phase.hpp"

namespace trainyard {
namespace {

using Bar = StepPicture::Bar;
using StepTone = StepPicture::Tone;

struct Span {
  double begin = 0, end = 0;
};

/// Sorts spans and joins those that overlap, or touch each other.
std::vector<Span> join_spans(std::vector<Span> spans, bool touching = true) {
  std::ranges::sort(spans, {}, &Span::begin);
  std::vector<Span> result;
  for (const Span& s : spans)
    if (!result.empty() && (touching ? s.begin <= result.back().end : s.begin < result.back().end))
      result.back().end = std::max(result.back().end, s.end);
    else
      result.push_back(s);
  return result;
}

/// Returns the parts of `spans` that none of `covers` covers. Both lists are sorted and without overlaps.
std::vector<Span> uncovered_parts(const std::vector<Span>& spans, const std::vector<Span>& covers) {
  std::vector<Span> rest;
  std::size_t found = 0;
  for (Span s : spans) {
    while (found < covers.size() && covers[found].end <= s.begin) ++found;
    for (std::size_t i = found; i < covers.size() && covers[i].begin < s.end; ++i) {
      if (covers[i].begin > s.begin) rest.push_back({s.begin, covers[i].begin});
      s.begin = std::max(s.begin, covers[i].end);
    }
    if (s.begin < s.end) rest.push_back(s);
  }
  return rest;
}

double total_length(const std::vector<Span>& spans) {
  double sum = 0;
  for (const Span& s : spans) sum += s.end - s.begin;
  return sum;
}

/// The breakdown has one group for all compute and one for compression. In the picture, each phase of their operations
/// has a tone.
std::string tone_name(const Group& group, std::uint8_t phase) {
  return group.name == kComputeGroup || group.name == kCompressionGroup ? name_of(static_cast<ComputePhase>(phase))
                                                                        : group.name;
}

constexpr const char *kReadOnHost = "read samples", *kDecodeOnHost = "decode samples", *kCopyOnHost = "copy samples";

/// Hues that people with the common kinds of colour blindness can tell apart at least by lightness.
StepTone tone_of(const std::string& name) {
  static const std::map<std::string, StepTone> tones = [] {
    std::map<std::string, StepTone> all;
    for (const StepTone& tone :
         {StepTone{name_of(ComputePhase::forward), "#8fbfe0", "#8fbfe0"},
          StepTone{name_of(ComputePhase::backward), "#2b6ca3", "#2b6ca3", 0, 0, true},
          StepTone{name_of(ComputePhase::bucket_copies), "#8858ad", "#8858ad", 0, 0, true},
          StepTone{name_of(ComputePhase::encode), "#b5489a", "#b5489a", 0, 0, true},
          StepTone{name_of(ComputePhase::decode), "#e39bc8", "#e39bc8"},
          StepTone{"optimizer", "#4f9d4a", "#4f9d4a", 0, 0, true},
          StepTone{"framework", "#8c6d5d", "#8c6d5d", 0, 0, true}, StepTone{kReadOnHost, "#7fc4b4", "#5fae9d"},
          StepTone{kDecodeOnHost, "#2f8f7f", "#24786a", 0, 0, true}, StepTone{kCopyOnHost, "#c9b458", "#b59f3f"},
          StepTone{"bubble", "#e4e4e4", "#e4e4e4"}, StepTone{"other", "#cccccc", "#cccccc"}})
      all.emplace(tone.name, tone);
    return all;
  }();
  const auto found = tones.find(name);
  return found != tones.end() ? found->second : StepTone{name, "#f0a830", "#d98c10"};
}

StepTone exposed_tone(const std::string& group) { return {"exposed " + group, "#d62728", "#d62728", 0, 0, true, true}; }

class Painter {
 public:
  Painter(StepPicture& picture, const Names& names, const std::vector<std::string>& streams, Span time)
      : picture_(picture), names_(names), streams_(streams), time_(time) {}

  void add(const OpRecord& record) {
    const OpRecord r = within_time(record);
    const Group& group = names_.groups()[r.group];
    if (r.kind == Kind::mark || r.ended <= r.posted) return;
    if (group.role == Role::work) {
      const std::size_t tone = tone_at(tone_of(tone_name(group, names_.phase(r.name))));
      const double launched = std::clamp(record.started + record.launch.wait.value - time_.begin, r.started, r.ended);
      if (launched > r.started) {
        lane(r.stream).bars.push_back({r.started, launched, tone_named("framework"), 0, r.name});
        host_waits_.push_back({r.started, launched});
      }
      lane(r.stream).bars.push_back({launched, r.ended, tone, 0, r.name});
      work_[{r.group, tone}].push_back({r.started, r.ended});
      return;
    }
    lane(r.stream).in_progress = true;
    lane(r.stream).bars.push_back({r.started, r.ended, tone_named(group.name), r.name, r.name});
    picture_.runs.try_emplace(r.name, names_[r.name]);
    // Waiting for a peer within a collective belongs to it once all have begun, and so does waiting for a prefetch; see
    // Breakdown.
    const double began = std::max(r.posted, r.started);
    const bool waits = group.role == Role::point_to_point || (group.role == Role::collective && r.kind == Kind::join);
    messages_[r.group % kGroups].push_back({waits ? began : r.posted, r.ended});
    if (waits) waits_.push_back({r.posted, began});
  }

  /// Books waits for the host first, then work, then the exposed parts of messages, and adds these to the lane of
  /// computation.
  void book_times() {
    if (picture_.lanes.empty()) return;
    if (const std::vector<Span> waits = lone_host_waits(); !waits.empty()) count_work(tone_named("framework"), waits);
    for (const auto& [kind, spans] : work_) count_work(kind.second, join_spans(spans));
    const auto expose_all = [this](bool prefetched) {
      for (GroupId g = 0; g < kGroups; ++g)
        if (!messages_[g].empty() && (names_.groups()[g].role == Role::prefetch) == prefetched) expose(g);
    };
    expose_all(false);
    cover(waits_);
    expose_all(true);
    std::vector<Bar>& bars = picture_.lanes.front().bars;
    std::ranges::sort(bars, {}, &Bar::begin);
  }

  /// Books the time that is left: `bubble` (s) as waiting for peers, as in the breakdown, and the rest as "other".
  void book_rest(double bubble) {
    if (bubble > 1e-9 * picture_.end) picture_.tones[tone_named("bubble")].seconds = bubble;
    std::vector<StepTone>& tones = picture_.tones;
    double sum = 0;
    for (const StepTone& tone : tones) sum += tone.seconds;
    if (picture_.end - sum > 1e-9 * picture_.end) tones[tone_named("other")].seconds = picture_.end - sum;
  }

  /// Adds an operation of the loader of the rank's samples.
  void add_loading(const OpRecord& record) {
    const OpRecord r = within_time(record);
    const std::string& group = names_.groups()[r.group].name;
    const double began = std::max(r.posted, r.started);
    if (r.kind == Kind::mark || r.ended <= began) return;
    loading_[group == kReadGroup ? 0 : group == kCopyGroup ? 2 : 1].push_back({began, r.ended});
  }

  /// Ends the picture: leaves out streams without operations, and puts the lanes of the host above the others.
  void close() {
    std::erase_if(picture_.lanes, [](const StepPicture::Lane& lane) { return lane.bars.empty(); });
    constexpr std::pair<const char*, const char*> names[] = {
        {"CPU read", kReadOnHost}, {"CPU decode", kDecodeOnHost}, {"CPU copy", kCopyOnHost}};  // lanes and tones
    for (std::size_t i = std::size(names); i-- > 0;) {
      if (loading_[i].empty()) continue;
      const std::size_t tone = tone_named(names[i].second);
      StepPicture::Lane lane{names[i].first, {}, false};
      for (const Span& s : join_spans(loading_[i], false)) {
        lane.bars.push_back({s.begin, s.end, tone, 0, 0});
        picture_.tones[tone].on_host += s.end - s.begin;
      }
      picture_.lanes.insert(picture_.lanes.begin(), std::move(lane));
    }
  }

 private:
  static constexpr GroupId kGroups = 32;
  StepPicture& picture_;
  const Names& names_;
  const std::vector<std::string>& streams_;
  Span time_;                                                          // the pictured part of the run
  std::map<std::pair<GroupId, std::size_t>, std::vector<Span>> work_;  // indexed by group and tone
  std::vector<Span> messages_[kGroups], waits_, host_waits_, loading_[3];
  std::vector<Span> covered_;  // joined

  /// Returns the part of an operation in the pictured time, which begins at 0.
  OpRecord within_time(OpRecord r) const {
    for (double* time : {&r.posted, &r.started, &r.ended})
      *time = std::clamp(*time, time_.begin, time_.end) - time_.begin;
    return r;
  }
  /// Returns the parts of waits for the host in which no other work runs. In the others that work counts.
  std::vector<Span> lone_host_waits() const {
    std::vector<std::pair<double, int>> changes;
    for (const auto& [kind, spans] : work_)
      for (const Span& s : spans) {
        changes.emplace_back(s.begin, 1);
        changes.emplace_back(s.end, -1);
      }
    std::ranges::sort(changes);
    std::vector<Span> beside;
    int running = 0;
    for (const auto& [time, change] : changes) {
      if (running == 1 && change > 0) beside.push_back({time, time});
      if (running == 2 && change < 0) beside.back().end = time;
      running += change;
    }
    return uncovered_parts(join_spans(host_waits_), beside);
  }
  void cover(const std::vector<Span>& spans) {
    covered_.insert(covered_.end(), spans.begin(), spans.end());
    covered_ = join_spans(covered_);
  }
  /// Counts work of a tone. If kinds of work overlap, the group that comes first counts, as in the breakdown.
  void count_work(std::size_t tone, const std::vector<Span>& spans) {
    const double counted = total_length(uncovered_parts(spans, covered_));
    picture_.tones[tone].seconds += counted;
    picture_.tones[tone].beside += total_length(spans) - counted;
    cover(spans);
  }
  /// Adds the parts of a group's messages that nothing covers yet.
  void expose(GroupId g) {
    const std::size_t tone = tone_at(exposed_tone(names_.groups()[g].name));
    const std::vector<Span> messages = join_spans(messages_[g]), spans = uncovered_parts(messages, covered_);
    for (const Span& s : spans) {
      picture_.lanes.front().bars.push_back({s.begin, s.end, tone, 0, 0});
      picture_.tones[tone].seconds += s.end - s.begin;
    }
    StepTone& communication = picture_.tones[tone_named(names_.groups()[g].name)];
    communication.beside += total_length(messages) - picture_.tones[tone].seconds;
    cover(spans);
  }

  StepPicture::Lane& lane(Stream stream) {
    while (picture_.lanes.size() <= stream) {
      const std::size_t i = picture_.lanes.size();
      picture_.lanes.push_back({i < streams_.size() ? streams_[i] : fmt::format("stream {}", i), {}, false});
    }
    return picture_.lanes[stream];
  }
  std::size_t tone_named(const std::string& name) { return tone_at(tone_of(name)); }
  std::size_t tone_at(StepTone tone) {
    for (std::size_t i = 0; i < picture_.tones.size(); ++i)
      if (picture_.tones[i].name == tone.name) return i;
    picture_.tones.push_back(std::move(tone));
    return picture_.tones.size() - 1;
  }
};

/// Returns ", ring all-reduce"; "" for one device.
std::string how_in_words(const StepRun& run) {
  const Scenario& s = run.scenario;
  if (s.plan.splits_model()) return ", " + s.plan.mesh_in_words();
  if (s.ranks() == 1) return "";
  return ", " + s.plan.mechanism->summary(fmt::format("{} all-reduce", all_reduce_name(run.planned.all_reduce)));
}

}  // namespace

StepPicture step_picture(const StepRun& run, Actor rank, PicturePart pictured) {
  const Scenario& s = run.scenario;
  const bool one_step = pictured == PicturePart::one_step;
  StepPicture picture;
  const Actor actor = run.actor_of_rank(rank), loader = s.input.is_used() ? run.plan.input.loader_of_rank[rank] : -1;
  SteadyWindow::Step step{0, run.end.end.value, run.breakdown.parts(actor)};
  // A rank that ends early waits for the last one. This is bubble too, as in the answer's breakdown.
  double waits_at_end = std::max(0.0, step.end - run.breakdown.end(actor).value);
  if (one_step && run.plan.marks_steps) {
    step = run.window.middle_step(actor);
    waits_at_end = 0;
  }
  const double end = picture.end = step.end - step.begin;
  Painter painter(picture, run.names, run.streams, {step.begin, step.end});
  for (const OpRecord& r : run.timeline.records()) {
    if (r.actor == actor) painter.add(r);
    if (r.actor == loader) painter.add_loading(r);
  }
  painter.book_times();
  painter.book_rest(step.parts.bubble.value + waits_at_end);
  painter.close();

  double exposed = 0, booked = 0;
  for (const StepTone& tone : picture.tones)
    if (tone.exposed) exposed += tone.seconds;
  for (const auto& [group, seconds] : step.parts.exposed) booked += seconds.value;
  if (std::abs(exposed - booked) > 1e-9 * step.end)
    throw InternalError(fmt::format("the picture shows {} s of exposed communication, not {} s", exposed, booked));

  for (MemoryUse::Sample sample : run.memory.samples(actor)) {
    sample.time = std::max(0.0, sample.time - step.begin);
    if (sample.time <= end) picture.memory.push_back(sample);
  }
  picture.capacity = s.cluster.type_of_gpu(rank).gpu.memory_capacity.value;
  picture.peak = run.memory.peak(actor).value;
  const int steps = one_step && run.plan.marks_steps ? 1 : run.plan.steps;
  const char* kind = s.plan.inference ? "inference" : "training";
  picture.title = fmt::format("{} {} step{} of {}: {}", steps == 1 ? "One" : std::to_string(steps), kind,
                              steps == 1 ? "" : "s", s.network.name, show(Seconds{end}));
  picture.subtitle = fmt::format(
      "{} × {}{}, {} of {} · seen from rank {}", s.ranks(), s.cluster.type_of_gpu(rank).gpu.name, how_in_words(run),
      counted_noun(s.micro_batches(), "micro-batch", "micro-batches"), s.micro_batch_size, rank);
  if (step.steps > 1)
    picture.subtitle +=
        fmt::format(" · step {} of {}, {} each in the mean", step.number, step.steps,
                    show((run.window.end(actor) - run.window.begin(actor)) / run.window.own_steps(actor)));
  for (const StepTone& tone : picture.tones)
    if (tone.seconds > 0)
      picture.description +=
          fmt::format("{}{} {}", picture.description.empty() ? "" : ", ", tone.name, show(Seconds{tone.seconds}));
  return picture;
}

std::vector<StepPicture::Piece> joined_bars(const std::vector<Bar>& bars, double cell) {
  std::vector<StepPicture::Piece> joined;
  for (const Bar& bar : bars) {
    const double length = bar.end - bar.begin;
    StepPicture::Piece* last = joined.empty() ? nullptr : &joined.back();
    const StepPicture::Piece alone{bar.begin, bar.end, length, bar.tone, bar.run, bar.name, 1, length};
    if (!last || length >= cell || last->end - last->begin >= cell ||
        std::floor(bar.begin / cell) != std::floor(last->begin / cell)) {
      joined.push_back(alone);
      continue;
    }
    const StepPicture::Piece before = *last;
    if (length > before.longest) *last = alone;
    last->begin = before.begin;
    last->end = bar.end;
    last->busy = before.busy + length;
    last->bars = before.bars + 1;
  }
  return joined;
}

std::vector<MemoryUse::Sample> thinned_memory(const std::vector<MemoryUse::Sample>& samples, double end, double cells) {
  std::vector<MemoryUse::Sample> thinned;
  for (std::size_t i = 0; i < samples.size();) {
    std::size_t highest = i, next = i;
    const double cell = std::floor(samples[i].time / end * cells);
    for (; next < samples.size() && std::floor(samples[next].time / end * cells) == cell; ++next)
      if (samples[next].bytes > samples[highest].bytes) highest = next;
    thinned.push_back(samples[highest]);
    if (highest + 1 < next) thinned.push_back(samples[next - 1]);
    i = next;
  }
  return thinned;
}

std::function<void(const StepRun&)> picture_of(const Scenario& s, const std::filesystem::path& file,
                                               std::optional<int> rank) {
  if (rank) require_rank(s, *rank);
  return [file, rank](const StepRun& run) {
    write_atomically(file, draw(step_picture(run, rank.value_or(run.last()), PicturePart::one_step)));
  };
}

}  // namespace trainyard
