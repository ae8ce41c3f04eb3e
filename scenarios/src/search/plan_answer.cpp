#include "scenarios/src/search/plan_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "models/reading/document_text.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/legal_batches.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "sim/process/job.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// Shares of the wall time: the search may take the first, and its ranking of groups the second. The rest of the time
/// is for the simulations around the best plan.
constexpr double kSearchShare = 0.7, kRankShare = 0.3;

/// Returns the scenario with twice the memory, or with a class of resources twice as fast.
Scenario doubled(const Scenario& s, const std::string& resource) {
  return read_again(s, faster(s, resource == "memory" ? kMemoryCapacity : resource, 2));
}

class AnswerMaker {
 public:
  AnswerMaker(const PlanQuestion& question, const PlanAnswerOptions& options)
      : question_(question),
        options_(options),
        space_(question, options.space),
        journal_(options.journal),
        runner_(question.base, space_, journal_) {}

  PlanAnswer make() {
    answer_.scenario = question_.base.name;
    answer_.gpus = space_.gpus();
    answer_.capacity = runner_.capacity();
    answer_.headroom = options_.headroom.value_or(default_headroom(question_.base));
    const bool simulates_more = options_.neighbours || options_.rule || options_.upgrades;
    limit_time(simulates_more ? kSearchShare : 1);
    search();
    limit_time(1);
    if (answer_.search.best() && !is_interrupted()) {
      const bool is_whole = options_.search.shard.is_whole();
      if (options_.rule && is_whole) add_rule();
      if (options_.neighbours && is_whole) add_neighbours();
      if (options_.upgrades) add_upgrades(*answer_.search.best());
    }
    answer_.document = question_.base.document;
    if (const SimulatedPlan* best = answer_.search.best()) *answer_.document.find("plan") = space_.section(best->point);
    compare_own();
    add_rows();
    add_announced();
    compare_with_best();
    answer_.ended = !is_interrupted() ? answer_.search.ended : time_is_over() ? SearchEnd::time : SearchEnd::interrupt;
    return std::move(answer_);
  }

 private:
  const PlanQuestion& question_;
  const PlanAnswerOptions& options_;
  const PlanSpace space_;
  Journal journal_;
  PlanRunner runner_;
  PlanAnswer answer_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::optional<TimeLimit> limit_;

  /// Starts a time limit up to this share of the wall time, if the wall time is limited.
  void limit_time(double share) {
    if (options_.seconds <= 0) return;
    limit_.reset();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
    limit_.emplace(std::max(1e-3, options_.seconds * share - passed.count()));
  }

  /// Shows progress, with the best plan of the search if it has ended.
  void show(const std::string& text) const {
    if (!options_.search.progress) return;
    const SimulatedPlan* best = answer_.search.best();
    options_.search.progress(best ? fmt::format("best {:.4g} s; {}", best->outcome.step_time, text) : text);
  }
  PlanRow row(const SimulatedPlan& plan, const std::string& change = "") const {
    return {change,    space_.words(plan.point), plan.floor, plan.outcome, plan.outcome.leaves(answer_.headroom), {},
            plan.point};
  }
  double usable() const { return answer_.capacity * (1 - answer_.headroom); }
  /// Returns the options of a search. `side_search`: its name in progress texts; "": it is the main search.
  PlanSearchOptions search_options(bool without_headroom, const std::string& side_search = "") const {
    PlanSearchOptions options = options_.search;
    if (!side_search.empty())
      options.progress = [this, side_search](const std::string& text) { show(side_search + ": " + text); };
    options.headroom = answer_.headroom;
    options.without_headroom = without_headroom && answer_.headroom > 0;
    return options;
  }

  /// Adds plans that were simulated after the search: they count for the best plan, the Pareto front, and the proof.
  void take(const std::vector<SimulatedPlan>& plans) {
    std::vector<PlanPoint> groups;
    for (const SimulatedPlan& plan : plans) static_cast<PlanGroup&>(groups.emplace_back()) = plan.point;
    const std::vector<double> floors = runner_.group_floors(groups);
    for (std::size_t i = 0; i < plans.size(); ++i)
      answer_.search.add(plans[i], answer_.headroom, {plans[i].floor, floors[i]});
    answer_.search.rank();
    if (answer_.search.proved) answer_.search.ended = SearchEnd::proved;
    answer_.search.runs = runner_.simulated_plans();
  }

  void search() {
    require_listed_values();
    std::vector<PlanPoint> first;
    if (question_.own && !is_own_outside())
      first.push_back(point_of(*question_.own));
    else if (options_.seconds > 0)
      first = plain_plans();
    PlanSearchOptions options = search_options(options_.without_headroom);
    options.rank_seconds = options_.seconds * kRankShare;
    answer_.search = search_plans(runner_, space_, space_.groups(), first, options);
    if (answer_.search.judged == answer_.search.refused && answer_.search.runs == 0 && !is_interrupted() &&
        answer_.search.useless_from == 0 && options_.search.shard.is_whole())
      require_any_plan();
  }

  /// Returns true if the scenario's own plan is not one of the searched plans.
  bool is_own_outside() const {
    if (!question_.own->plan.mesh.widths.empty()) return true;
    const PlanPoint stated_plan = point_of(*question_.own);
    return space_.legal_plan(stated_plan) != stated_plan;
  }

  /// Throws UserError if some plans have values that the user lists for a field of numbers, but none has one of them.
  void require_listed_values() const {
    const std::vector<PlanPoint> groups = space_.groups();
    if (groups.empty()) return;
    for (const PlanSpaceOptions::Axis& axis : options_.space.vary) {
      const std::string reason = unlisted_value(axis, groups);
      if (!reason.empty()) throw UserError(reason);
    }
  }

  /// Explains which listed number of a field no plan of `groups` has, with the nearest that a plan could have; "" if each
  /// has a plan, or if no other number helps.
  std::string unlisted_value(const PlanSpaceOptions::Axis& axis, const std::vector<PlanPoint>& groups) const {
    const std::set<std::int64_t> searched = numbers_of(axis.path, groups);
    PlanSpaceOptions free_space = options_.space;
    std::erase_if(free_space.vary, [&axis](const PlanSpaceOptions::Axis& other) { return other.path == axis.path; });
    std::set<std::int64_t> legal;
    for (const std::string& text : axis.values) {
      const std::optional<double> value = find_number(text);
      if (!value || searched.contains(static_cast<std::int64_t>(*value))) continue;
      if (legal.empty()) legal = numbers_of(axis.path, PlanSpace(question_, free_space).groups());
      if (legal.empty() || legal.contains(static_cast<std::int64_t>(*value))) continue;
      std::vector<std::int64_t> near;
      const auto above = legal.upper_bound(static_cast<std::int64_t>(*value));
      if (above != legal.begin()) near.push_back(*std::prev(above));
      if (above != legal.end()) near.push_back(*above);
      return fmt::format("--vary {}: no plan has {}; nearest: {}", axis.path, text, fmt::join(near, " or "));
    }
    return "";
  }

  /// Lists the numbers that groups have for a field of numbers; empty: all plans of a group share no number for it.
  static std::set<std::int64_t> numbers_of(const std::string& path, const std::vector<PlanPoint>& groups) {
    std::set<std::int64_t> numbers;
    for (const PlanPoint& group : groups) {
      if (path == "plan.micro_batch_size") numbers.insert(group.micro_batch);
      for (const SearchedDegree& degree : searched_degrees())
        if (path == degree.path()) numbers.insert(group.*degree.member);
    }
    return numbers;
  }

  /// Returns the simple plan with the lowest floor, so that a limited search has a result early. Empty: none fits.
  std::vector<PlanPoint> plain_plans() {
    show("judging plain plans");
    const int tensor = plain_tensor(question_.base.cluster.node.gpus);
    std::vector<PlanPoint> points;
    for (const PlanPoint& group : space_.groups()) {
      if ((group.tensor != 1 && group.tensor != tensor) || group.context > 1 || group.micro_batch > 1) continue;
      for (const PlanPoint& point : space_.points(group))
        if (point.zero <= ZeroStage::optimizer && point.chunks == 1 && point.schedule == "1f1b" &&
            point.offload == "none")
          points.push_back(point);
    }
    const std::vector<JudgedPlan> judged = runner_.judged_points(points);
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (judged[i].fits(usable()) && (!best || judged[i].floor < judged[*best].floor)) best = i;
    return best ? std::vector<PlanPoint>{points[*best]} : std::vector<PlanPoint>{};
  }

  /// Throws UserError if there is no plan. The reason is the batch, or the reader's error for the first plan.
  void require_any_plan() {
    const auto fail_with = [this](const std::string& why) {
      throw UserError(
          fmt::format("plan: {} has no plan on {}: {}", question_.base.name, counted_noun(space_.gpus(), "GPU"), why));
    };
    const std::int64_t batch = question_.base.global_batch_size;
    const LegalSplits splits = legal_splits(question_, options_.space);
    if (splits.dividing(batch) == 0) fail_with(splits.why_none(batch));
    PlanJudge judge(question_.base, space_);
    std::string refusal;
    for (const PlanPoint& group : space_.groups())
      for (const PlanPoint& point : space_.points(group)) {
        const std::string reason = judge.refusal(point);
        if (reason.empty()) return;  // there is a plan, but none fits
        if (refusal.empty()) refusal = reason;
      }
    if (!refusal.empty()) fail_with("all are refused; the first: " + refusal);
    for (const PlanSpaceOptions::Axis& axis : options_.space.vary)
      if (const std::string reason = unlisted_value(axis, {}); !reason.empty()) fail_with(reason);
    fail_with("none has the values of --vary");
  }

  std::vector<PlanRow> ranked_rows() const {
    std::vector<PlanRow> rows;
    for (const SimulatedPlan& plan : answer_.search.simulated) rows.push_back(row(plan));
    const auto times = [](const PlanRow& row) { return std::tie(row.outcome.step_time, row.outcome.peak); };
    if (answer_.own && answer_.own->leaves_headroom &&
        std::ranges::none_of(rows, [&](const PlanRow& row) { return times(row) == times(*answer_.own); })) {
      rows.push_back(*answer_.own);
      rows.back().plan += ", as the scenario says it";
    }
    sort_stably(rows, [&](const auto& a, const auto& b) { return times(a) < times(b); });
    return rows;
  }

  void find_without_headroom(const std::vector<PlanRow>& rows) {
    if (!options_.without_headroom) return;
    const auto offer = [&](const PlanRow& tight) {
      const PlanRow* best = answer_.without_headroom ? &*answer_.without_headroom
                            : rows.empty()           ? nullptr
                                                     : &rows.front();
      if (!best || tight.outcome.step_time < best->outcome.step_time) answer_.without_headroom = tight;
    };
    if (!answer_.search.tight.empty()) offer(row(answer_.search.tight.front()));
    if (answer_.own && answer_.own->outcome.good() && !answer_.own->leaves_headroom) offer(*answer_.own);
  }

  /// Fills the fastest plans, the Pareto front and the flatness from all simulated plans, including the scenario's own.
  void add_rows() {
    const std::vector<PlanRow> rows = ranked_rows();
    find_without_headroom(rows);
    if (rows.empty()) return;
    answer_.best.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(std::min(options_.rows, rows.size())));
    double least = std::numeric_limits<double>::infinity();
    for (const PlanRow& candidate : rows) {
      if (candidate.outcome.peak >= least) continue;
      least = candidate.outcome.peak;
      answer_.pareto.push_back(candidate);
    }
    for (const double share : {0.01, 0.05, 0.10}) {
      PlanAnswer::Flatness flatness{share, 0, 0};
      const double limit = rows.front().outcome.step_time * (1 + share);
      for (const PlanRow& row : rows) flatness.at_least += row.outcome.step_time <= limit ? 1 : 0;
      flatness.at_most = flatness.at_least;
      for (const double floor : answer_.search.remaining_floors) flatness.at_most += floor <= limit ? 1 : 0;
      answer_.flatness.push_back(flatness);
    }
  }

  /// Adds the step times of all listed plans at the ends of the ranges of announced hardware.
  void add_announced() {
    if (!has_announced_ranges(question_.base)) return;
    std::vector<PlanRow*> listed;
    const auto list = [&listed](PlanRow& row) {
      if (row.outcome.good()) listed.push_back(&row);
    };
    for (std::vector<PlanRow>* rows : {&answer_.best, &answer_.pareto, &answer_.neighbours})
      std::for_each(rows->begin(), rows->end(), list);
    for (std::optional<PlanRow>* row : {&answer_.own, &answer_.rule, &answer_.without_headroom})
      if (*row) list(**row);
    std::map<std::string, std::vector<PlanRow*>> rows_of_plan;
    for (PlanRow* row : listed)
      rows_of_plan[yaml_text(row->point ? space_.section(*row->point) : *question_.own->document.find("plan"))]
          .push_back(row);
    const std::vector<std::pair<std::string, std::vector<PlanRow*>>> plans(rows_of_plan.begin(), rows_of_plan.end());
    show("the ranges of announced hardware");
    const auto times = in_parallel(plans.size(), processors(), [&](std::size_t i) {
      const PlanRow& row = *plans[i].second.front();
      Node document = row.point ? question_.base.document : question_.own->document;
      if (row.point) *document.find("plan") = space_.section(*row.point);
      return announced_step_times(read_scenario(document, question_.base.name), Seconds{row.outcome.step_time});
    });
    for (std::size_t i = 0; i < plans.size(); ++i)
      for (PlanRow* row : plans[i].second)
        if (times[i]) row->outcome.doubt.take_announced(row->outcome.step_time, *times[i]);
  }

  /// Fills in the probability that each plan is truly slower than the best.
  void compare_with_best() {
    if (answer_.best.empty()) return;
    const PlanOutcome best = answer_.best.front().outcome;
    const auto compare = [&](PlanRow& row) {
      const bool is_own = answer_.own && &row == &answer_.own.value();
      const bool is_best =
          (is_own && answer_.own_is_best) || (row.change.empty() && row.plan == answer_.best.front().plan);
      if (!is_best && best.doubt.exists() && row.outcome.doubt.exists() && row.outcome.good())
        row.slower = probability_of_longer(best.step_time, best.doubt, row.outcome.step_time, row.outcome.doubt);
    };
    for (std::vector<PlanRow>* rows : {&answer_.best, &answer_.pareto, &answer_.neighbours})
      std::for_each(rows->begin(), rows->end(), compare);
    for (std::optional<PlanRow>* row : {&answer_.own, &answer_.rule, &answer_.without_headroom})
      if (*row) compare(**row);
    for (const PlanRow& row : ranked_rows()) {
      if (!best.doubt.exists() || !row.outcome.doubt.exists()) continue;
      answer_.equals +=
          probability_of_longer(best.step_time, best.doubt, row.outcome.step_time, row.outcome.doubt) < kSurelySlower;
    }
  }

  /// Fills the neighbours of the best plan. If a neighbour is faster, which happens only if the search was cut short,
  /// this neighbour becomes the best plan.
  void add_neighbours() {
    PlanPoint best;
    do {
      best = answer_.search.best()->point;
      take(neighbours_of(best));
    } while (answer_.search.best()->point != best && !is_interrupted());
    if (answer_.search.best()->point != best) answer_.neighbours.clear();
    sort_stably(answer_.neighbours, [](const PlanRow& a, const PlanRow& b) {
      if (a.outcome.fits != b.outcome.fits) return a.outcome.fits;
      if (!a.outcome.fits && (a.outcome.peak > 0) != (b.outcome.peak > 0)) return a.outcome.peak > 0;
      return a.outcome.fits ? a.outcome.step_time < b.outcome.step_time : a.outcome.peak < b.outcome.peak;
    });
  }

  /// Fills `neighbours`. Returns those that were simulated.
  std::vector<SimulatedPlan> neighbours_of(const PlanPoint& best) {
    show("changing each choice of the best plan");
    answer_.neighbours.clear();
    const auto all = space_.neighbours(best);
    std::vector<PlanPoint> points;
    for (const auto& [change, point] : all) points.push_back(point);
    const std::vector<JudgedPlan> judged = runner_.judged_points(points);
    std::vector<PlanPoint> fitting;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (judged[i].fits(runner_.capacity())) fitting.push_back(points[i]);
    const std::vector<PlanOutcome> outcomes = runner_.outcomes(fitting);
    std::vector<SimulatedPlan> simulated;
    std::size_t next = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!judged[i].error.empty()) continue;  // there is no such plan
      SimulatedPlan plan{points[i], judged[i].floor, {}};
      if (judged[i].fits(runner_.capacity()))
        plan.outcome = outcomes[next++];
      else if (judged[i].memory.exact)  // a lower bound is no peak
        plan.outcome.peak = judged[i].memory.peak.value;
      if (!plan.outcome.error.empty()) continue;
      answer_.neighbours.push_back(row(plan, all[i].first));
      if (plan.outcome.fits) simulated.push_back(plan);
    }
    return simulated;
  }

  /// Finds the mesh of the rule of thumb: the fewest tensor ranks, and with them the fewest stages, on which a plan
  /// fits that shards at most the optimizer's states.
  void add_rule() {
    show("simulating the rule of thumb");
    std::vector<PlanPoint> groups = space_.groups();
    std::erase_if(groups, [](PlanPoint g) {
      g.tensor = g.pipeline = 1;
      return static_cast<const Degrees&>(g) != Degrees{};
    });
    std::set<std::pair<int, int>> meshes;
    for (const PlanPoint& group : groups) meshes.emplace(group.tensor, group.pipeline);
    for (const auto& [tensor, pipeline] : meshes) {
      std::vector<PlanPoint> groups_of_mesh, plain;
      for (const PlanPoint& group : groups)
        if (group.tensor == tensor && group.pipeline == pipeline) groups_of_mesh.push_back(group);
      for (const PlanPoint& group : groups_of_mesh)
        for (const PlanPoint& point : space_.points(group))
          if (point.zero <= ZeroStage::optimizer && point.chunks == 1 && point.schedule == "1f1b" &&
              point.offload == "none")
            plain.push_back(point);
      const std::vector<JudgedPlan> judged = runner_.judged_points(plain);
      if (is_interrupted()) return;
      if (std::ranges::none_of(judged, [this](const JudgedPlan& plan) { return plan.fits(usable()); })) continue;
      const PlanSearch found =
          search_plans(runner_, space_, groups_of_mesh, {}, search_options(false, "rule of thumb"));
      if (found.best() && !is_interrupted()) answer_.rule = row(*found.best());
      take(found.simulated);
      take(found.tight);
      return;
    }
  }

  void add_upgrades(const SimulatedPlan& best) {
    const std::vector<std::string> classes = resource_classes(question_.base);
    for (const char* resource : {"memory", "NVLink", "HCA"}) {
      if (std::string(resource) != "memory" && std::ranges::find(classes, resource) == classes.end()) continue;
      if (is_interrupted()) return;
      PlanQuestion question = question_;
      question.base = doubled(question_.base, resource);
      const PlanSpace space(question, options_.space);
      PlanRunner runner(question.base, space, journal_, fmt::format(" 2x {}", resource));
      const PlanSearch found = search_plans(runner, space, space.groups(), {best.point},
                                            search_options(false, fmt::format("2x {}", resource)));
      if (found.best() && !is_interrupted()) answer_.upgrades.push_back(row(*found.best(), resource));
    }
  }

  /// Simulates the scenario's own plan as its file states it, because it may be outside of the space.
  void compare_own() {
    if (!question_.own || is_interrupted() || answer_.search.useless_from > 0) return;
    PlanOutcome outcome;
    try {
      outcome = outcome_of(*question_.own, simulate(*question_.own));
    } catch (const Interruption&) {
      return;
    }
    const Mesh& mesh = question_.own->plan.mesh;
    answer_.own = PlanRow{"", mesh.widths.empty() ? space_.words(point_of(*question_.own)) : mesh.in_words(), 0,
                          outcome, outcome.leaves(answer_.headroom)};
    if (is_own_outside()) {
      ++answer_.search.outside;
      ++answer_.search.runs;
    }
    const SimulatedPlan* best = answer_.search.best();
    answer_.own_is_best = answer_.own->leaves_headroom && (!best || outcome.step_time < best->outcome.step_time);
    if (answer_.own_is_best) answer_.document = question_.own->document;
  }
};

}  // namespace

PlanAnswer answer_plan(const PlanQuestion& question, const PlanAnswerOptions& options) {
  return AnswerMaker(question, options).make();
}

}  // namespace trainyard
