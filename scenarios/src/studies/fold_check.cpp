#include "scenarios/src/studies/fold_check.hpp"

#include <fmt/format.h>

#include <map>

#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr double kSameResult = 1e-9;
/// Tolerance for the critical path, which has gaps between times that are equal except for rounding.
constexpr double kPathTolerance = 1e-6;

/// Results of the folded run.
struct FoldedTimes {
  std::vector<Actor> class_of;                         // class of each rank
  std::vector<LinkId> class_of_link;                   // class of each link
  std::vector<double> bytes;                           // bytes of each class of links
  std::vector<double> peaks;                           // peak memory of each class of ranks
  std::vector<std::vector<std::vector<double>>> ends;  // ends of operations by class and stream, in order
  std::vector<std::vector<double>> busy;               // busy time by class and stream
  std::map<std::string, double> path;                  // critical path by resource
  std::string unfolded_reason;
  DrawSharing draws = DrawSharing::each_rank;
  double most_of_draws = 0;  // largest expected error of the step with shared draws
};

/// Records the busy time of each stream of each actor.
class BusyTimes {
 public:
  void add(const OpRun& run) {
    std::vector<double>& streams = busy_.grown(run.op->actor);
    if (streams.size() <= run.op->stream) streams.resize(run.op->stream + 1U, 0);
    streams[run.op->stream] += (run.ended - run.started).value;
  }
  const IndexedVector<std::vector<double>, Actor>& all() const { return busy_; }

 private:
  IndexedVector<std::vector<double>, Actor> busy_;
};

/// Records the end of each operation.
class OpEnds : public Observer {
 public:
  Interest interest() const override { return {.transfers = false}; }
  void finished(const OpRun& run) override {
    auto& streams = ends.grown(run.op->actor);
    if (streams.size() <= run.op->stream) streams.resize(run.op->stream + 1U);
    streams[run.op->stream].push_back(run.ended.value);
    busy.add(run);
  }
  IndexedVector<std::vector<std::vector<double>>, Actor> ends;
  BusyTimes busy;
};

FoldedTimes folded_run(const Scenario& s, const Plan& plan) {
  OpEnds ends;
  PathWatch path;
  SimulateOptions options{.critical_path = false};
  options.draws = DrawSharing::sharing;
  options.last_pod = LastPod::as_it_is;
  options.observe.emplace_back([&ends](const StepRun&) { return &ends; });
  path.watch(options);
  const StepRun run(s, plan, options);
  FoldedTimes times;
  times.unfolded_reason = run.unfolded_reason;
  if (run.shared_draws) {
    times.draws = run.shared_draws->draws();
    times.most_of_draws = run.shared_draws->most_error();
  }
  if (!run.fold) return times;
  for (Actor rank = 0; rank < run.fold->actors(); ++rank) times.class_of.push_back(run.fold->class_of(rank));
  for (std::size_t link = 0; link < run.machine.top().links().size(); ++link)
    times.class_of_link.push_back(run.fold->class_of_link(static_cast<LinkId>(link)));
  for (std::size_t c = 0; c < run.fold->links().size(); ++c)
    times.bytes.push_back(run.traffic.on_link(static_cast<LinkId>(c)).value);
  for (Actor c = 0; c < run.fold->classes(); ++c) times.peaks.push_back(run.memory.peak(c).value);
  times.ends.assign(ends.ends.begin(), ends.ends.end());
  times.busy.assign(ends.busy.all().begin(), ends.busy.all().end());
  times.path = path.by_resource();
  return times;
}

/// Compares an unfolded run with the results of the folded one.
class FoldComparison : public Observer {
 public:
  /// `tolerance`: times and amounts that differ by no larger share are the same.
  FoldComparison(const FoldedTimes& folded, FoldCheck& check, double tolerance = kSameResult)
      : folded_(folded), check_(check), tolerance_(tolerance) {}
  Interest interest() const override { return {.transfers = false}; }

  void finished(const OpRun& run) override {
    const auto stream = static_cast<std::size_t>(run.op->stream);
    const std::size_t done = ended_count(run.op->actor, stream)++;
    const std::vector<double>* ends = ends_of(run.op->actor, stream);
    const auto figure_name = [&] {
      return fmt::format("rank {}, stream {}, operation {}", run.op->actor, stream, done);
    };
    ++check_.operations;
    busy_.add(run);
    bool is_same = false;
    if (!ends || done >= ends->size())
      note_missing(fmt::format("{}: ends at {} s, and is missing with folded ranks", figure_name(), run.ended.value));
    else
      is_same = compare((*ends)[done], run.ended.value, [&] { return figure_name() + " ends"; }, " s");
    // Operations end in the order of time.
    if (!is_same && !check_.first_difference) check_.first_difference = run.ended.value;
  }

  /// Compares the critical path by resource. Differences are relative to the whole path.
  void compare_path(const std::map<std::string, double>& full) {
    double length = 0;
    for (const auto& [resource, seconds] : full) length += seconds;
    std::map<std::string, double> all = folded_.path;
    all.insert(full.begin(), full.end());
    for (const auto& [resource, ignored] : all) {
      const auto share = [&](const std::map<std::string, double>& path) {
        const auto found = path.find(resource);
        return found == path.end() ? 0 : found->second / length;
      };
      const double folded = share(folded_.path), unfolded = share(full), difference = std::abs(folded - unfolded);
      if (difference <= kPathTolerance) continue;
      check_.worst = std::max(check_.worst, difference);
      note(fmt::format("critical path: {} {:.4g} % folded, {:.4g} % rank by rank", resource, folded * 100,
                       unfolded * 100));
    }
  }

  void compare_rest(const StepRun& run) {
    for (Actor rank = 0; rank < static_cast<Actor>(folded_.class_of.size()); ++rank) {
      const std::size_t c = class_of(rank);
      compare(
          folded_.peaks[c], run.memory.peak(rank).value, [&] { return fmt::format("rank {}: peak of memory", rank); },
          " bytes");
      for (std::size_t s = 0; c < folded_.ends.size() && s < folded_.ends[c].size(); ++s)
        if (ended_count(rank, s) != folded_.ends[c][s].size())
          note_missing(fmt::format("rank {}, stream {}: {} operations, {} with folded ranks", rank, s,
                                   ended_count(rank, s), folded_.ends[c][s].size()));
      compare_busy(rank, c);
    }
    for (std::size_t link = 0; link < folded_.class_of_link.size(); ++link) {
      const LinkId c = folded_.class_of_link[link];
      compare(
          c < 0 ? 0 : folded_.bytes[static_cast<std::size_t>(c)], run.traffic.on_link(static_cast<LinkId>(link)).value,
          [&] { return "link " + run.machine.top().links()[link].name.text(); }, " bytes");
    }
  }

 private:
  const FoldedTimes& folded_;
  FoldCheck& check_;
  double tolerance_;
  std::vector<std::vector<std::size_t>> done_;  // number of ended operations, by rank and stream
  BusyTimes busy_;

  /// Compares busy times. Sums of durations lose digits at late times, so their differences are relative to the time.
  void compare_busy(Actor rank, std::size_t class_index) {
    const std::vector<double>* full = busy_.all().find(rank);
    const std::size_t streams = class_index < folded_.busy.size() ? folded_.busy[class_index].size() : 0;
    for (std::size_t s = 0; full && s < std::min(streams, full->size()); ++s) {
      if (folded_.ends[class_index][s].empty()) continue;
      const double end = folded_.ends[class_index][s].back();
      compare(
          end + folded_.busy[class_index][s], end + (*full)[s],
          [&] { return fmt::format("rank {}, stream {}: its end and its busy time", rank, s); }, " s");
    }
  }

  std::size_t class_of(Actor rank) const { return static_cast<std::size_t>(folded_.class_of[position(rank)]); }
  std::size_t& ended_count(Actor rank, std::size_t stream) {
    if (done_.size() <= position(rank)) done_.resize(position(rank) + 1);
    std::vector<std::size_t>& streams = done_[position(rank)];
    if (streams.size() <= stream) streams.resize(stream + 1, 0);
    return streams[stream];
  }
  const std::vector<double>* ends_of(Actor rank, std::size_t stream) const {
    const std::size_t c = class_of(rank);
    return c < folded_.ends.size() && stream < folded_.ends[c].size() ? &folded_.ends[c][stream] : nullptr;
  }

  /// Returns true if both figures are the same.
  template <class FigureName>
  bool compare(double folded, double full, FigureName figure_name, const char* unit) {
    const double difference = std::abs(folded - full) / std::max({std::abs(folded), std::abs(full), 1e-300});
    check_.worst = std::max(check_.worst, difference);
    if (difference <= tolerance_) return true;
    note(fmt::format("{}: {:.12g}{} folded, {:.12g}{} rank by rank", figure_name(), folded, unit, full, unit));
    return false;
  }
  void note_missing(std::string difference) {
    check_.worst = std::max(check_.worst, 1.0);
    note(std::move(difference));
  }
  void note(std::string difference) {
    if (check_.difference.empty()) check_.difference = std::move(difference);
  }
};

constexpr double kMostCompared = 100e6;  // operations; to compare so many takes half a minute

/// Compares a run in which ranks share draws with one in which each has its own, on the same steps.
void compare_draws(const Scenario& s, const Plan& plan, DrawSharing draws, FoldCheck& check) {
  SimulateOptions options{.critical_path = false};
  options.draws = draws;
  options.last_pod = LastPod::as_it_is;
  const Result with_sharing = simulate(s, plan, options);
  options.draws = DrawSharing::each_rank;
  options.folding = Folding::off;
  const Result unshared = simulate(s, on_steps(plan, with_sharing.warm_steps, with_sharing.steps), options);
  check.shared_draws = with_sharing.shared_draws;
  check.draws_time = with_sharing.step_time.value / unshared.step_time.value - 1;
  if (unshared.energy && with_sharing.energy)
    check.draws_energy = with_sharing.energy->step() / unshared.energy->step() - 1;
}

/// Compares a run whose last pod counts as full with one of every rank.
void compare_pods(const Scenario& s, const Plan& plan, FoldCheck& check) {
  SimulateOptions options{.critical_path = false};
  options.last_pod = LastPod::as_full;
  options.after = [&check](const StepRun& run) {
    check.most_of_pods = run.full_pods ? run.full_pods->most_error() : 0;
  };
  const Result with_full_pods = simulate(s, plan, options);
  if (with_full_pods.full_pods.empty()) return;
  const Result every_rank = simulate(s, plan, {.critical_path = false, .folding = Folding::off});
  check.full_pods = with_full_pods.full_pods;
  check.pods_time = with_full_pods.step_time.value / every_rank.step_time.value - 1;
}

/// Returns when a run rank by rank of a scenario that is barely faster first differs from the folded one, if that is
/// before `latest`. No value: none does. If the fold itself is wrong, such a run differs at `latest` as well, or drifts
/// as the run rank by rank does; twice the tolerance, and a time that is earlier for sure, tell this apart.
std::optional<double> first_by_rounding(const Scenario& s, const FoldedTimes& folded, double latest) {
  for (const Scenario& faster : barely_faster(s)) {
    FoldCheck check;
    FoldComparison comparison(folded, check, 2 * kSameResult);
    SimulateOptions options{.critical_path = false};
    options.folding = Folding::off;
    options.draws = folded.draws;
    options.observe.emplace_back([&comparison](const StepRun&) { return &comparison; });
    const StepRun run(faster, trainyard::plan(faster), options);
    if (check.first_difference && *check.first_difference < latest * (1 - kSameResult)) return check.first_difference;
  }
  return std::nullopt;
}

/// Throws UserError if the plan is too large to simulate rank by rank. The error proposes a smaller plan.
void require_comparable(const Scenario& s, const Plan& plan) {
  const double operations = estimated_operations(plan, true);
  if (operations <= kMostCompared) return;
  const int data = s.plan.mesh.data, fewer = static_cast<int>(data * kMostCompared / operations / 2);
  throw UserError(fmt::format(
      "--fold check: rank by rank these are {:.3g} operations of {} ranks; at most {:.3g} are compared. Expected {}",
      operations, s.ranks(), kMostCompared,
      fewer < 1 || data == 1 ? std::string("fewer micro-batches or layers")
                             : fmt::format("the same plan on fewer replicas: --set plan.data_parallel.size={} --set "
                                           "plan.global_batch_size={} --set plan.idle_devices=allowed",
                                           fewer, fewer * (s.global_batch_size / data))));
}

}  // namespace

FoldCheck check_folding(const Scenario& s, const Plan& plan) {
  require_simulable(s, plan);
  require_comparable(s, plan);
  FoldCheck check;
  check.ranks = s.ranks();
  compare_pods(s, plan, check);
  const FoldedTimes folded = folded_run(s, plan);
  check.unfolded_reason = folded.unfolded_reason;
  check.classes = folded.unfolded_reason.empty() ? static_cast<int>(folded.peaks.size()) : check.ranks;
  if (!check.unfolded_reason.empty()) return check;
  {
    FoldComparison comparison(folded, check);
    SimulateOptions options{.critical_path = false};
    options.folding = Folding::off;
    options.draws = folded.draws;
    options.observe.emplace_back([&comparison](const StepRun&) { return &comparison; });
    PathWatch path;
    path.watch(options);
    const StepRun run(s, plan, options);
    comparison.compare_rest(run);
    comparison.compare_path(path.by_resource());
  }
  check.most_of_draws = folded.most_of_draws;
  if (folded.draws != DrawSharing::each_rank) compare_draws(s, plan, folded.draws, check);
  if (check.first_difference) check.first_by_rounding = first_by_rounding(s, folded, *check.first_difference);
  return check;
}

}  // namespace trainyard
