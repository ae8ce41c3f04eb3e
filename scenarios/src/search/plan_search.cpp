#include "scenarios/src/search/plan_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <queue>
#include <tuple>

#include "sim/index.hpp"
#include "sim/process/job.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

// Numbers of groups and plans that are handled together. They are constant, so that the order of the search does not
// depend on the number of processors.
constexpr std::size_t kGroupsAtOnce = 16, kPlansAtOnce = 8;
constexpr double kWorkOfRanking = 0.5;       // share of the limit of work for the ranking of groups
constexpr std::size_t kGroupsOfChunk = 200;  // number of groups that are ranked between two looks at the clock
constexpr double kNoFloor = std::numeric_limits<double>::infinity();

/// Returns true if `a` takes less time than `b`, or equal time and less memory.
bool is_faster(const SimulatedPlan& a, const SimulatedPlan& b) {
  return std::tie(a.outcome.step_time, a.outcome.peak) < std::tie(b.outcome.step_time, b.outcome.peak);
}
bool has(const std::vector<SimulatedPlan>& plans, const PlanPoint& point) {
  return std::ranges::any_of(plans, [&point](const SimulatedPlan& s) { return s.point == point; });
}

/// A plan that may be the best. In a tie, the plan that was listed first comes first.
struct PromisingPlan {
  double floor = 0;
  std::size_t group = 0, number = 0;
  PlanPoint point;
  bool tight = false;
  bool operator<(const PromisingPlan& other) const {  // the lowest floor has the highest priority
    return std::tie(floor, group, number) > std::tie(other.floor, other.group, other.number);
  }
};

class PlanFinder {
 public:
  PlanFinder(PlanRunner& runner, const PlanSpace& space, const std::vector<PlanPoint>& groups,
             const PlanSearchOptions& options)
      : runner_(runner), space_(space), groups_(groups), options_(options) {
    found_.work_limit = options.work;
  }

  PlanSearch run(const std::vector<PlanPoint>& first) {
    for (const PlanPoint& group : groups_) found_.plans += sizes_.emplace_back(space_.points(group).size());
    if (options_.useful <= 0) simulate_first(first);
    rank_groups();
    if (is_useless()) return std::move(found_);
    if (options_.useful > 0) simulate_first(first);
    while (!is_interrupted()) {
      drop_hopeless();
      if (out_of_work()) break;
      const double group_floor = next_ < order_.size() ? floors_[order_[next_]] : kNoFloor;
      const double plan_floor = promising_.empty() ? kNoFloor : promising_.top().floor;
      if (std::min(group_floor, plan_floor) == kNoFloor && best_ == kNoFloor && !unranked_.empty()) {
        rank_more();  // no ranked plan fits
        continue;
      }
      if (std::min(group_floor, plan_floor) > best_ || std::min(group_floor, plan_floor) == kNoFloor) break;
      if (group_floor <= plan_floor)
        judge_groups();
      else
        simulate_plans();
    }
    return take_result();
  }

 private:
  PlanRunner& runner_;
  const PlanSpace& space_;
  const std::vector<PlanPoint>& groups_;
  const PlanSearchOptions& options_;
  PlanSearch found_;
  std::vector<double> floors_;
  std::vector<std::size_t> order_;     // the groups of the last ranking, sorted by floor
  std::vector<std::size_t> unranked_;  // groups without a floor, because a limit ended the ranking
  std::vector<std::size_t> sizes_;     // number of plans of each group
  // Number of groups to rank at once; next position in order_; number of groups that were ranked so far.
  std::size_t chunk_ = 0, next_ = 0, place_ = 0;
  std::priority_queue<PromisingPlan> promising_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double best_ = kNoFloor, best_without_ = kNoFloor;
  double shown_best_ = kNoFloor;  // includes plans that ended while others of the same batch still run

  /// Returns the step time to beat. Plans with larger floors need not be simulated.
  double limit(const PromisingPlan& plan) const { return plan.tight ? best_without_ : best_; }
  double usable() const { return runner_.capacity() * (1 - options_.headroom); }
  /// Drops plans that do not leave the headroom and cannot be faster than the best plan that fits.
  void drop_hopeless() {
    while (!promising_.empty() && promising_.top().tight && promising_.top().floor >= best_without_) promising_.pop();
  }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  bool out_of_work() const { return options_.work > 0 && found_.work >= options_.work && best_ < kNoFloor; }
  void show(const std::string& text) const {
    if (options_.progress) options_.progress(text);
  }

  void take(const PlanPoint& point, double floor, const PlanOutcome& outcome) {
    if (outcome.error == "interrupted") return;
    ++found_.runs;
    found_.work += outcome.operations;
    if (!outcome.good()) {
      if (outcome.error.empty()) keep_closest(point, outcome.peak);
      return;
    }
    best_without_ = std::min(best_without_, outcome.step_time);
    if (outcome.leaves(options_.headroom)) {
      best_ = std::min(best_, outcome.step_time);
      found_.simulated.push_back({point, floor, outcome});
    } else {
      keep_closest(point, outcome.peak);
      found_.tight.push_back({point, floor, outcome});
    }
  }
  void keep_closest(const PlanPoint& point, double peak, bool is_exact = true) {
    if (found_.closest && found_.closest_peak <= peak) return;
    found_.closest = point;
    found_.closest_peak = peak;
    found_.closest_is_exact = is_exact;
  }

  /// Returns true if no group has a plan with a useful step time.
  bool is_useless() {
    if (options_.useful <= 0 || order_.empty() || !unranked_.empty() || is_interrupted()) return false;
    const double least = floors_[order_.front()];
    if (least == kNoFloor || least <= options_.useful) return false;
    found_.useless_from = least;
    return true;
  }

  void simulate_first(const std::vector<PlanPoint>& points) {
    const std::vector<JudgedPlan> judged = runner_.judged_points(points);
    std::vector<PlanPoint> fitting;
    std::vector<double> floors;
    for (std::size_t i = 0; i < points.size(); ++i)
      if (judged[i].fits(runner_.capacity())) {
        fitting.push_back(points[i]);
        floors.push_back(judged[i].floor);
      }
    const std::vector<PlanOutcome> outcomes = runner_.outcomes(fitting);
    for (std::size_t i = 0; i < fitting.size(); ++i) take(fitting[i], floors[i], outcomes[i]);
  }

  /// Ranks all groups by floor; under a limit only the most likely ones.
  void rank_groups() {
    unranked_ = consecutive_numbers(std::size_t{0}, groups_.size());
    chunk_ = unranked_.size();
    if (options_.work > 0) chunk_ = static_cast<std::size_t>(options_.work * kWorkOfRanking / kOperationsOfGroup);
    if (options_.rank_seconds > 0) chunk_ = kGroupsOfChunk;
    if (chunk_ < unranked_.size())
      sort_stably(unranked_, [this](auto a, auto b) { return unlikeliness(groups_[a]) < unlikeliness(groups_[b]); });
    floors_.assign(groups_.size(), 0);
    rank_more();
  }

  /// Ranks further groups, until some have a finite floor.
  void rank_more() {
    const std::vector<std::size_t> queue = std::move(unranked_);
    std::size_t ranked_count = 0;
    while (ranked_count < queue.size() && !is_interrupted() &&
           (has_no_floor(queue, ranked_count) || seconds() < options_.rank_seconds)) {
      const std::size_t end = std::min(queue.size(), ranked_count + std::max(kGroupsAtOnce, chunk_));
      rank_groups(queue, ranked_count, end);
      ranked_count = end;
    }
    if (ranked_count == queue.size()) require_readable();
    found_.work += kOperationsOfGroup * static_cast<double>(ranked_count);
    order_.assign(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(ranked_count));
    unranked_.assign(queue.begin() + static_cast<std::ptrdiff_t>(ranked_count), queue.end());
    next_ = 0;
    std::ranges::sort(order_);
    sort_stably(order_, [this](auto a, auto b) { return floors_[a] < floors_[b]; });
    std::erase_if(order_, [&](std::size_t) { return !options_.shard.has(place_++); });
  }

  void rank_groups(const std::vector<std::size_t>& queue, std::size_t begin, std::size_t end) {
    std::vector<PlanPoint> groups;
    for (std::size_t i = begin; i < end; ++i) groups.push_back(groups_[queue[i]]);
    std::size_t done = begin;
    const std::vector<double> floors = runner_.group_floors(groups, [&](std::size_t more) {
      show(fmt::format("{} of {} groups of plans bounded{}", done += more, groups_.size(), best_words()));
    });
    for (std::size_t i = begin; i < end; ++i) floors_[queue[i]] = floors[i - begin];
  }

  bool has_no_floor(const std::vector<std::size_t>& queue, std::size_t ranked_count) const {
    return std::all_of(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(ranked_count),
                       [this](std::size_t group) { return floors_[group] == kNoFloor; });
  }

  /// Returns a number that is larger, the less likely a group has good plans. Small micro-batches, contexts that
  /// are not split, and tensor and expert ranks within a node are likely.
  double unlikeliness(const PlanPoint& group) const {
    const auto doublings = [](double n) { return std::max(0.0, std::log2(n)); };
    double sum = doublings(static_cast<double>(group.micro_batch));
    for (const SearchedDegree& degree : searched_degrees())
      if (degree.likely_limit)
        sum += doublings(group.*degree.member / static_cast<double>(degree.likely_limit(space_.gpus_of_node())));
    return sum;
  }

  /// Throws UserError if no plan can be read, for example because of an unknown field.
  void require_readable() {
    const bool has_floor = std::ranges::any_of(floors_, [](double floor) { return floor < kNoFloor; });
    if (has_floor || groups_.empty() || is_interrupted()) return;
    const std::vector<JudgedPlan> judged = runner_.judge({groups_.front()}).front();
    if (!judged.empty() && std::ranges::all_of(judged, [](const auto& plan) { return !plan.error.empty(); }))
      throw UserError(fmt::format("no plan can be read; the first: {}", judged.front().error));
  }

  void judge_groups() {
    std::vector<PlanPoint> groups;
    const std::size_t first = next_;
    for (; next_ < order_.size() && groups.size() < kGroupsAtOnce; ++next_) {
      if (floors_[order_[next_]] > best_ || floors_[order_[next_]] == kNoFloor) break;
      groups.push_back(groups_[order_[next_]]);
    }
    const std::vector<std::vector<JudgedPlan>> judged = runner_.judge(groups);
    for (std::size_t g = 0; g < judged.size(); ++g) {
      if (judged[g].empty()) {  // interrupted
        const std::size_t group = order_[first + g];
        found_.remaining_floors.insert(found_.remaining_floors.end(), sizes_[group], floors_[group]);
        continue;
      }
      const std::vector<PlanPoint> points = space_.points(groups[g]);
      for (std::size_t i = 0; i < points.size(); ++i) judge(first + g, i, points[i], judged[g][i]);
    }
    show(progress());
  }

  void judge(std::size_t group, std::size_t number, const PlanPoint& point, const JudgedPlan& plan) {
    ++found_.judged;
    found_.work += kOperationsOfJudged + plan.tasks;
    if (!plan.error.empty()) {
      ++found_.refused;
    } else if (!plan.fits(runner_.capacity())) {
      ++found_.too_large;
      keep_closest(point, plan.memory.peak.value, plan.memory.exact);
    } else {
      const bool tight = !plan.fits(usable());
      if (tight) {
        ++found_.too_tight;
        keep_closest(point, plan.memory.peak.value, plan.memory.exact);
      }
      if ((!tight || options_.without_headroom) && !has(found_.simulated, point) && !has(found_.tight, point))
        promising_.push({plan.floor, group, number, point, tight});
    }
  }

  void simulate_plans() {
    std::vector<PlanPoint> points;
    std::vector<double> floors;
    std::vector<bool> tight;
    for (drop_hopeless(); !promising_.empty() && points.size() < kPlansAtOnce && promising_.top().floor <= best_;
         drop_hopeless()) {
      points.push_back(promising_.top().point);
      floors.push_back(promising_.top().floor);
      tight.push_back(promising_.top().tight);
      promising_.pop();
    }
    const std::vector<PlanOutcome> outcomes = runner_.outcomes(points, [this](const PlanOutcome& outcome) {
      if (outcome.leaves(options_.headroom)) shown_best_ = std::min(shown_best_, outcome.step_time);
      show(progress());
    });
    for (std::size_t i = 0; i < points.size(); ++i) {
      take(points[i], floors[i], outcomes[i]);
      if (outcomes[i].error == "interrupted") promising_.push({floors[i], 0, i, points[i], tight[i]});
    }
  }

  std::string best_words() const {
    const double best = std::min(best_, shown_best_);
    return best < kNoFloor ? fmt::format("; best {:.4g} s", best) : "";
  }

  std::string progress() const {
    const double open = promising_.empty() ? kNoFloor : promising_.top().floor;
    const double next = next_ < order_.size() ? std::min(open, floors_[order_[next_]]) : open;
    std::string text =
        fmt::format("{} plans judged, {} simulated{}", found_.judged, runner_.simulated_plans(), best_words());
    // The text refers to bounded plans, without those that are being simulated.
    if (best_ < kNoFloor && unranked_.empty())
      text += fmt::format(", none of the others below {:.4g} s", std::min(next, best_));
    std::size_t others = 0;
    for (std::priority_queue<PromisingPlan> rest = promising_; !rest.empty() && others < 1000; rest.pop()) {
      if (rest.top().floor > best_) break;
      others += rest.top().floor < limit(rest.top()) ? 1 : 0;
    }
    if (others > 0 && runner_.simulated_plans() > 0)
      text += fmt::format("; at most {} to go, {:.0f} s", others == 1000 ? "1000 and more" : fmt::format("{}", others),
                          static_cast<double>(others) * seconds() / static_cast<double>(runner_.simulated_plans()));
    return text;
  }

  SearchEnd end_reason() const {
    if (found_.proved) return SearchEnd::proved;  // even if a limit was reached afterwards
    return !is_interrupted() ? SearchEnd::work : time_is_over() ? SearchEnd::time : SearchEnd::interrupt;
  }

  PlanSearch take_result() {
    for (; !promising_.empty(); promising_.pop())
      (promising_.top().tight ? found_.remaining_tight_floors : found_.remaining_floors)
          .push_back(promising_.top().floor);
    for (; next_ < order_.size() && floors_[order_[next_]] < kNoFloor; ++next_)
      found_.remaining_floors.insert(found_.remaining_floors.end(), sizes_[order_[next_]], floors_[order_[next_]]);
    for (const std::size_t group : unranked_)
      found_.remaining_floors.insert(found_.remaining_floors.end(), sizes_[group], 0.0);
    found_.rank();
    found_.ended = end_reason();
    return std::move(found_);
  }
};

}  // namespace

const char* name_of(SearchEnd end) {
  constexpr const char* names[] = {"proved", "work", "time", "interrupted"};
  return names[static_cast<std::size_t>(end)];
}

const SimulatedPlan* PlanSearch::best_without() const {
  if (simulated.empty() || tight.empty()) return !tight.empty() ? &tight.front() : best();
  return is_faster(tight.front(), simulated.front()) ? &tight.front() : best();
}

void PlanSearch::add(const SimulatedPlan& plan, double headroom, const std::vector<double>& floors) {
  if (!plan.outcome.good() || has(simulated, plan.point) || has(tight, plan.point)) return;
  (plan.outcome.leaves(headroom) ? simulated : tight).push_back(plan);
  for (const double floor : floors)
    for (std::vector<double>* remaining : {&remaining_tight_floors, &remaining_floors})
      if (const auto found = std::find(remaining->begin(), remaining->end(), floor); found != remaining->end()) {
        remaining->erase(found);
        return;
      }
}

void PlanSearch::rank() {
  sort_stably(simulated, is_faster);
  sort_stably(tight, is_faster);
  const double least = best() ? best()->outcome.step_time : kNoFloor;
  open = 0;
  open_floor = kNoFloor;
  for (const double floor : remaining_floors) {
    if (floor >= least) continue;
    ++open;
    open_floor = std::min(open_floor, floor);
  }
  proved = open == 0;
  if (proved) open_floor = 0;
  const double without = best_without() ? best_without()->outcome.step_time : kNoFloor;
  const auto none_below = [without](const std::vector<double>& floors) {
    return std::ranges::none_of(floors, [without](double floor) { return floor < without; });
  };
  proved_without = none_below(remaining_floors) && none_below(remaining_tight_floors);
}

PlanSearch search_plans(PlanRunner& runner, const PlanSpace& space, const std::vector<PlanPoint>& groups,
                        const std::vector<PlanPoint>& first, const PlanSearchOptions& options) {
  return PlanFinder(runner, space, groups, options).run(first);
}

}  // namespace trainyard
