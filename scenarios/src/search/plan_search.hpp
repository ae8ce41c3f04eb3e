#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/search/plan_runner.hpp"
#include "scenarios/src/studies/sweeps/study_shard.hpp"

namespace trainyard {

/// A plan that was simulated.
struct SimulatedPlan {
  PlanPoint point;
  double floor = 0;  ///< s; what it was judged by before
  PlanOutcome outcome;
};

struct PlanSearchOptions {
  /// The search ends after so much work, once it has found a plan that fits; 0: no limit. See `PlanSearch::work`.
  double work = 0;
  /// s of wall time in which groups are ranked; 0: no limit. The search itself is ended by a TimeLimit.
  double rank_seconds = 0;
  /// How far above the best plans are still simulated, to tell how flat the optimum is.
  double margin = 0;
  double headroom = 0;            ///< share of a GPU's memory that plans leave free
  bool without_headroom = false;  ///< finds the best of all that fit, too
  /// s: longer steps are of no use. The search ends at once where no plan takes less; 0: all are of use.
  double useful = 0;
  /// Of the groups by their floors: those of a shard alone. Another search that has all outcomes of all shards gives the same
  /// answer as without shards.
  StudyShard shard = {};
  std::function<void(const std::string&)> progress;
};

/// What ended a search: its best is proved, its limit of work, of wall time (a TimeLimit), or a signal.
enum class SearchEnd { proved, work, time, interrupt };
const char* name_of(SearchEnd);  ///< "proved", "work", "time", "interrupted"

/// What a search has found.
struct PlanSearch {
  std::vector<SimulatedPlan> simulated;  ///< those that fit and leave the headroom, the fastest first
  std::vector<SimulatedPlan> tight;      ///< those that fit without it alone, the fastest first
  std::size_t plans = 0;                 ///< in the space
  std::size_t judged = 0;                ///< of them, by memory and floor
  std::size_t refused = 0;               ///< of the judged: no plans by the reader
  std::size_t too_large = 0;             ///< of the judged: more than the GPUs hold
  std::size_t too_tight = 0;             ///< of the judged: they fit, but for the headroom
  double useless_from = 0;               ///< s: no plan takes less, which is too long to be of use; 0: not asked
  std::size_t runs = 0;                  ///< plans that were simulated, some of which did not fit
  /// Operations that were simulated; with kOperationsOfGroup for each group whose least time was told, and
  /// kOperationsOfJudged and one a task for each plan that was judged, which take about as long.
  double work = 0;
  SearchEnd ended = SearchEnd::proved;
  bool proved = false;          ///< no plan of the space is faster than the first
  std::size_t open = 0;         ///< not proved: plans that could still be faster
  double open_floor = 0;        ///< s: and none of them takes less
  bool proved_without = false;  ///< nor is any that fits faster than the best of these
  std::vector<double>
      left;  ///< s: floors of the plans that were not simulated but could be; of a group not judged, its own
  std::vector<double> left_tight;  ///< s: the same of plans that are known to fit without the headroom alone
  /// Where nothing fits: the plan that comes closest, and what it holds.
  std::optional<PlanPoint> closest;
  double closest_peak = 0;

  const SimulatedPlan* best() const { return simulated.empty() ? nullptr : &simulated.front(); }
  /// The best of all that fit, with the headroom or without; null: none.
  const SimulatedPlan* best_without() const;
  /// A plan that was simulated besides; one that is there already is left alone. `floors`: the one by which `left` has
  /// it, if it does.
  void add(const SimulatedPlan&, double headroom, const std::vector<double>& floors);
  /// Puts the fastest first, of equally fast ones the smallest, and counts what is open.
  void rank();
};

constexpr double kOperationsOfGroup = 4000, kOperationsOfJudged = 500;

/// Finds the plan of least step time among those of `groups` that fit, best floor first.
///
/// Groups are ranked by their floors; plans of the most promising group are judged by memory and floor, and of those
/// that fit the one of the lowest floor is simulated next. The search ends where no floor that is left lies below the
/// best time: since a floor is never above the simulated time, no plan left out is faster. `first`: plans that are
/// simulated before all others, such as the scenario's own. What comes out does not depend on the number of
/// processors, but where wall time ends it.
PlanSearch search_plans(PlanRunner&, const PlanSpace&, const std::vector<PlanPoint>& groups,
                        const std::vector<PlanPoint>& first, const PlanSearchOptions&);

}  // namespace trainyard
