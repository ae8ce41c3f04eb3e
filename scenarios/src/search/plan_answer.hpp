#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/search/plan_search.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A plan as an answer tells it.
struct PlanRow {
  std::string change;  ///< of a neighbour: in what it differs; of an upgrade: what is twice as much
  std::string plan;    ///< in words
  double floor = 0;    ///< s
  PlanOutcome outcome;
  bool leaves_headroom = true;
};

/// What `trainyard plan` answers.
struct PlanAnswer {
  std::string scenario;
  std::int64_t gpus = 0;
  double capacity = 0;                  ///< bytes of a GPU
  double headroom = 0;                  ///< share of them that plans leave free
  PlanSearch search;                    ///< with all that was simulated around its best
  SearchEnd ended = SearchEnd::proved;  ///< what ended it: of its searches, or what is asked around the best
  Node document;                        ///< the scenario with the best plan
  std::vector<PlanRow> best;            ///< the first few
  std::optional<PlanRow> own;           ///< the scenario's own plan
  bool own_is_best = false;             ///< it says what the space does not have, and is faster
  /// The fastest that fits without the headroom, where that is another one than the best.
  std::optional<PlanRow> without_headroom;
  /// Of all plans that were simulated and leave the headroom, those that none beats in time and memory: none takes less
  /// of both, or as much of one and less of the other.
  std::vector<PlanRow> pareto;
  /// One thing of the best plan changed at a time, the cheapest first; those that do not fit come last.
  std::vector<PlanRow> neighbours;
  /// Plans at most so much slower than the best.
  struct Flatness {
    double share = 0;
    std::size_t at_least = 0;  ///< simulated
    std::size_t at_most = 0;   ///< with those whose floors allow it
  };
  std::vector<Flatness> flatness;
  /// The best plan of the mesh that the rule of thumb takes: data-parallel while the model fits on a device, then as
  /// many pipeline stages as it needs, then tensor ranks.
  std::optional<PlanRow> rule;
  std::vector<PlanRow> upgrades;  ///< the best plan where something is twice as much
};

struct PlanAnswerOptions {
  PlanSpaceOptions space;
  PlanSearchOptions search;
  std::filesystem::path journal;
  /// Share of a GPU's memory that plans leave free; unsaid: `default_headroom`.
  std::optional<double> headroom;
  std::size_t rows = 5;
  bool neighbours = true, rule = true, upgrades = false;
  double seconds = 0;            ///< of wall time for it all, whatever is found; 0: no limit
  bool without_headroom = true;  ///< looks for the best that fits without it, too
};

/// Searches, and asks around the best plan. Throws UserError where there is no plan at all.
PlanAnswer answer_plan(const PlanQuestion&, const PlanAnswerOptions&);

const JsonFields<PlanAnswer>& plan_fields();
JsonFields<PlanRow> plan_row_fields();

}  // namespace trainyard
