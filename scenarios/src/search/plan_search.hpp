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
  double floor = 0;  ///< lower bound of its step time, s
  PlanOutcome outcome;
};

struct PlanSearchOptions {
  /// Limit of work: the search ends beyond it, once it has found a plan that fits. 0: no limit. See `PlanSearch::work`.
  double work = 0;
  /// Limit of wall time for the ranking of groups, s; 0: no limit. A TimeLimit ends the search itself.
  double rank_seconds = 0;
  double headroom = 0;            ///< share of a GPU's memory that plans must leave free
  bool without_headroom = false;  ///< also finds the best plan that fits without the headroom
  /// Longest useful step, s; 0: any. The search ends as soon as no plan can be faster than this.
  double useful = 0;
  /// Share of the groups, in the order of their floors, that is searched. A further search with the outcomes of all
  /// shards gives the same answer as a search without shards.
  StudyShard shard = {};
  std::function<void(const std::string&)> progress;
};

/// The reason why a search ended: a proof that its best plan is optimal, the limit of work, the limit of wall time (a
/// TimeLimit), or a signal.
enum class SearchEnd { proved, work, time, interrupt };
const char* name_of(SearchEnd);  ///< "proved", "work", "time", "interrupted"

/// The result of a search.
struct PlanSearch {
  std::vector<SimulatedPlan> simulated;  ///< plans that fit and leave the headroom, the fastest first
  std::vector<SimulatedPlan> tight;      ///< plans that fit only without the headroom, the fastest first
  std::size_t plans = 0;                 ///< number of plans in the space
  std::size_t judged = 0;                ///< plans that were judged by memory and floor
  std::size_t refused = 0;               ///< judged plans that the reader refuses
  std::size_t too_large = 0;             ///< judged plans that need more memory than the GPUs have
  std::size_t too_tight = 0;             ///< judged plans that fit, but do not leave the headroom
  double useless_from = 0;  ///< lower bound of all plans, s, if it is above the longest useful step; else 0
  std::size_t runs = 0;     ///< number of simulated plans, including those that do not fit
  std::size_t outside = 0;  ///< simulated plans that are not in the space: the scenario's own, if it is not
  /// Number of simulated operations, plus an equivalent of the other work: kOperationsOfGroup for each group's lower
  /// bound, and for each judged plan kOperationsOfJudged and one per task.
  double work = 0;
  SearchEnd ended = SearchEnd::proved;
  bool proved = false;          ///< no plan of the space is faster than the first
  std::size_t open = 0;         ///< if not proved: number of plans that could still be faster
  double open_floor = 0;        ///< lower bound of their step times, s
  bool proved_without = false;  ///< no plan that fits, with or without the headroom, is faster than `best_without`
  /// Floors of the plans that a longer search might simulate, s. A plan whose group was not judged has the group's
  /// floor.
  std::vector<double> remaining_floors;
  /// Lower bounds of the steps of plans that are known to fit only without the headroom, s.
  std::vector<double> remaining_tight_floors;
  /// The plan that needs least memory, if no plan fits.
  std::optional<PlanPoint> closest;
  double closest_peak = 0;       ///< memory of that plan, bytes
  bool closest_is_exact = true;  ///< false: this memory is a lower bound
  double work_limit = 0;         ///< limit of work, see `PlanSearchOptions::work`; 0: none

  /// Returns the number of plans of the space that were neither simulated nor found to be refused or too large.
  std::size_t dropped() const {
    const std::size_t others = runs + refused + too_large, all = plans + outside;
    return all > others ? all - others : 0;
  }
  const SimulatedPlan* best() const { return simulated.empty() ? nullptr : &simulated.front(); }
  /// Returns the best of all plans that fit, with the headroom or without. Null: none fits.
  const SimulatedPlan* best_without() const;
  /// Adds a plan that was simulated outside of the search, unless the search has it already. `floors`: floors by which
  /// the plan may be listed in `remaining_tight_floors` or `remaining_floors`. The first that is found there is
  /// removed.
  void add(const SimulatedPlan&, double headroom, const std::vector<double>& floors);
  /// Sorts plans by step time, equally fast ones by memory, and counts the open plans.
  void rank();
};

constexpr double kOperationsOfGroup = 4000, kOperationsOfJudged = 500;

/// Finds the fastest plan of `groups` that fits, lowest floor first.
///
/// Groups are ranked by their floors. The plans of the most promising group are judged by memory and floor. Of the
/// judged plans that fit, the one with the lowest floor is simulated next. The search ends when no remaining floor is
/// below the best time: a floor is never above the simulated time, so no remaining plan is faster. `first`: plans to
/// simulate before all others, such as the scenario's own. The result does not depend on the number of processors
/// unless wall time ends the search.
PlanSearch search_plans(PlanRunner&, const PlanSpace&, const std::vector<PlanPoint>& groups,
                        const std::vector<PlanPoint>& first, const PlanSearchOptions&);

}  // namespace trainyard
