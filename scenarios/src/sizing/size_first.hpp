#pragma once
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "scenarios/src/search/plan_search.hpp"
#include "scenarios/src/sizing/size_growth.hpp"
#include "scenarios/src/sizing/size_training.hpp"

namespace trainyard {

/// The plain plans of a cluster: one tensor rank or those of a whole node, no context ranks, one sample a micro-batch.
class PlainPlans {
 public:
  PlainPlans(PlanQuestion, const PlanSpaceOptions&);
  PlainPlans(const PlainPlans&) = delete;
  PlainPlans& operator=(const PlainPlans&) = delete;

  /// Returns a lower bound of the step times of all plain plans, s. Infinite: none fits. Throws Interruption.
  double floor();
  /// Returns the next plain plan that should leave this share of the memory free, not simulated: the one with the lowest bound
  /// of the next groups of plans. No value: there is none whose bound is below `useful`, s. Throws Interruption.
  std::optional<SimulatedPlan> next(double headroom, double useful = std::numeric_limits<double>::infinity());
  /// Simulates a plain plan that leaves this share of the memory free, one of those with the lowest bounds. No value:
  /// none was found whose bound is below `useful`, s. Throws Interruption.
  std::optional<SimulatedPlan> simulate(double headroom, double useful = std::numeric_limits<double>::infinity());

  const PlanSpace& space() const { return space_; }

 private:
  const PlanQuestion question_;
  const PlanSpace space_;
  Journal journal_;
  PlanRunner runner_;
  std::vector<std::pair<double, PlanPoint>> groups_;  // groups that may fit, lowest floor first
  std::size_t next_ = 0;                              // first group that was not judged

  void rank(bool recomputes);
};

/// Bounds the plain plans of a case on a number of nodes with which they may meet the deadline. `room`: most nodes.
SizeBound bound_of(SizeQuestion&, const SizeCase&, int room);

/// Simulates one plain plan on the nodes of the bound. If it is late, it tries more nodes. No value: none fits.
std::optional<SizeRow> first_row(SizeQuestion&, const SizeCase&, const SizeBound&, int room);

/// A case that has room at the site, with its bound.
struct PromisingCase {
  const SizeCase* size_case = nullptr;
  std::optional<SiteLimit> limit;
  SizeBound bound = {};
  int room() const { return limit ? std::min(limit->nodes, kMostSizedNodes) : kMostSizedNodes; }
};

/// The first answer of a question about several node types.
class FirstAnswer {
 public:
  /// Both arguments must outlive the object.
  FirstAnswer(SizeQuestion& question, const SizeAnswer& answer) : question_(question), answer_(answer) {}

  /// Bounds all cases, sorts them by promise within each model, and simulates one plan of the most promising ones: first
  /// among the cases that seem cheapest before any bound, then among all. Reports each answer that is better than the one
  /// before. Throws Interruption.
  void find(std::vector<PromisingCase>&);
  const std::optional<SizeRow>& row() const { return row_; }
  /// Returns the bounds so far, in the order of the search once all are known.
  const std::vector<SizeBound>& bounds() const { return bounds_; }

 private:
  SizeQuestion& question_;
  const SizeAnswer& answer_;
  std::optional<SizeRow> row_;
  std::vector<SizeBound> bounds_;

  /// Simulates one plan of the most promising of these cases that has one.
  void simulate(std::vector<PromisingCase> cases, std::size_t all_cases);
};

/// Keeps the cluster of the first answer among the rows if the search was interrupted before it could find a better one,
/// or found none that meets all conditions though this one does: a search with little work may miss its plan.
void keep_first_row(SizeAnswer&, const SizeRow& first_row);

}  // namespace trainyard
