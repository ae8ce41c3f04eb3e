#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/search/plan_runner.hpp"

namespace trainyard {

/// A layout of the training half of a loop, simulated.
struct TrainingHalf {
  Node section;        ///< section `plan` of the loop
  double seconds = 0;  ///< training, log-probabilities and loop of a step of the loop, s
  double copies = 0;   ///< time in which a colocated loop moves parameters and optimizer states, s
};

/// The layouts of the training half of one loop on its nodes, by rising time.
///
/// Layouts have the scenario's ZeRO stage, pipeline schedule and sequence parallelism, tensor ranks within a node, and
/// full recomputation, none or the scenario's, unless the user varies these. All such layouts of the plan space are
/// ordered by lower bounds of the half, which are refined where they are lowest: first the bound of a group of plans,
/// then that of each plan that fits, then this with the simulated passes for log-probabilities, at last the simulated
/// half. So the next layout is known to be the fastest of the rest. The result does not depend on the number of
/// processors.
class TrainingHalves {
 public:
  /// `document`: the loop with its nodes and batch. `scenario`: the loop whose ZeRO stage and schedule all layouts
  /// have, unless the options vary them. `sibling`: halves of a loop with the same nodes and batch, which differs only in
  /// what generates, so that the bounds of groups are the same; null: there is none. `headroom`: share of a GPU's memory
  /// that each layout leaves free; no value: `default_headroom`. Throws UserError for a plan that no search can choose.
  TrainingHalves(const Node& document, const Scenario& scenario, const PlanSpaceOptions&,
                 const TrainingHalves* sibling = nullptr, std::optional<double> headroom = {});

  /// Returns the layout number `k` from 0 by rising time. Null: there are no more, or bounds must be refined first.
  const TrainingHalf* find(std::size_t k);
  /// Refines the lowest bounds once. Returns false if there are none.
  bool refine();
  /// Returns a lower bound of the time of layout number `k`, s. Infinite: there is none.
  double bound(std::size_t k) const;
  /// Returns simulated operations, and an equivalent of the other work.
  double work() const { return work_; }
  std::size_t plans() const { return plans_; }          ///< plans that fit, of those that were judged
  std::size_t simulated() const { return simulated_; }  ///< halves that were simulated

 private:
  enum class Level : std::uint8_t { group, plan, passes, half };
  struct Candidate {
    double bound = 0;
    std::size_t order = 0;
    Level level = Level::group;
    PlanPoint point;
    double floor = 0;  // lower bound of a step of the training, s
    std::optional<TrainingHalf> half = {};
    bool operator<(const Candidate& other) const {  // the lowest bound comes first
      return std::tie(bound, order) > std::tie(other.bound, other.order);
    }
  };
  struct SimulatedHalf {
    std::optional<TrainingHalf> half;
    double operations = 0;
  };

  PlanQuestion question_;
  PlanSpace space_;
  Journal journal_;
  PlanRunner runner_;
  PlanJudges judges_;
  StateSharing sharing_;
  double headroom_ = 0;
  double steps_ = 1, passes_ = 0, loop_ = 0;
  std::vector<double> floors_;   // lower bounds of the groups
  std::vector<Candidate> open_;  // a heap
  std::deque<TrainingHalf> fastest_;
  std::size_t order_ = 0, plans_ = 0, simulated_ = 0;
  double work_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Result>> forward_;  // results of forward passes by document
  double forward_work_ = 0;

  void push(Candidate);
  std::vector<Candidate> pop_alike();
  Result simulated_step(const Scenario&);
  double passes_time(const PlanPoint&);
  SimulatedHalf simulated_half(const PlanPoint&);
};

}  // namespace trainyard
