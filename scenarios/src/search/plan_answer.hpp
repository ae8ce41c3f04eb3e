#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/search/plan_search.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A plan in an answer.
struct PlanRow {
  std::string change;  ///< for a neighbour: the changed choice; for an upgrade: the doubled resource
  std::string plan;    ///< description in words
  double floor = 0;    ///< lower bound of its step time, s
  PlanOutcome outcome;
  bool leaves_headroom = true;
  std::optional<double> slower = {};    ///< probability that it is truly slower than the best plan. No value: unknown
  std::optional<PlanPoint> point = {};  ///< No value: it is the scenario's own plan
};

/// The answer of `trainyard plan`.
struct PlanAnswer {
  std::string scenario;
  std::int64_t gpus = 0;
  double capacity = 0;                  ///< memory of a GPU, bytes
  double headroom = 0;                  ///< share of the memory that plans must leave free
  PlanSearch search;                    ///< the search, with all further plans that were simulated afterwards
  SearchEnd ended = SearchEnd::proved;  ///< reason for which the search and the simulations after it ended
  Node document;                        ///< the scenario with the best plan
  std::vector<PlanRow> best;            ///< the fastest plans
  std::optional<PlanRow> own;           ///< the scenario's own plan
  bool own_is_best = false;             ///< the own plan is outside of the plan space and faster than all plans in it
  /// The fastest plan that fits without the headroom. No value: none is faster than the best plan, or it was
  /// not searched.
  std::optional<PlanRow> without_headroom;
  /// The Pareto front of step time and memory over all simulated plans that leave the headroom.
  std::vector<PlanRow> pareto;
  /// Plans that differ from the best in a single choice, the fastest first; those that do not fit come last.
  std::vector<PlanRow> neighbours;
  /// The number of plans that are at most a share slower than the best.
  struct Flatness {
    double share = 0;          ///< largest slowdown over the best plan
    std::size_t at_least = 0;  ///< number of simulated plans
    std::size_t at_most = 0;   ///< number including the plans that were not simulated but whose floors are low enough
  };
  std::vector<Flatness> flatness;
  std::size_t equals = 0;  ///< number of simulated plans that count as equal to the best, with the best
  /// The best plan on the mesh of the rule of thumb: data parallelism if the model fits on a device, else as many
  /// pipeline stages as it needs, then tensor ranks.
  std::optional<PlanRow> rule;
  std::vector<PlanRow> upgrades;  ///< the best plan with one resource doubled
};

struct PlanAnswerOptions {
  PlanSpaceOptions space;
  PlanSearchOptions search;
  std::filesystem::path journal;
  /// Share of a GPU's memory that plans must leave free. No value: `default_headroom`.
  std::optional<double> headroom;
  std::size_t rows = 5;  ///< number of best plans in the answer
  bool neighbours = true, rule = true, upgrades = false;
  double seconds = 0;            ///< limit of wall time for the whole answer, s; 0: no limit
  bool without_headroom = true;  ///< also searches the best plan that fits without the headroom
};

/// Searches the best plan and simulates the other plans of the answer. Throws UserError if there is no plan at all.
PlanAnswer answer_plan(const PlanQuestion&, const PlanAnswerOptions&);

const JsonFields<PlanAnswer>& plan_fields();
JsonFields<PlanRow> plan_row_fields();

}  // namespace trainyard
