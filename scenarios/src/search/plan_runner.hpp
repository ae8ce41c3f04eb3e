#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "scenarios/src/search/plan_judge.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"

namespace trainyard {

struct Result;

/// The result of the simulation of a plan. Times are in s, sizes in bytes.
struct PlanOutcome {
  double step_time = 0, peak = 0, mfu = 0, samples_per_s = 0, tokens_per_s = 0;
  double compute = 0, bubble = 0, exposed = 0, optimizer = 0;
  double filled = 0;  ///< peak memory of the fullest GPU as a share of its memory
  StepDoubt doubt;    ///< doubt of the step time
  double risk = 0;    ///< probability that a GPU runs out of memory
  bool fits = false;
  std::string error;      ///< why the plan could not be simulated; empty: it was simulated
  double operations = 0;  ///< simulated operations, with folded ranks counted once and merged kernels as one
  double per_joule = 0;   ///< tokens (or samples) a joule, of the whole site; 0: the power is not stated
  double per_million = 0, owned_per_million = 0;  ///< cost of a million of them, rented and owned; 0: no such prices
  double total = 0;                               ///< cost of owning the cluster for the years of depreciation
  std::vector<double> memory_interval = {};       ///< 80 % interval of the memory of the fullest GPU, bytes
  bool good() const { return error.empty() && fits; }
  /// Returns true if the plan is good and leaves this share of the fullest GPU's memory free.
  bool leaves(double headroom) const { return good() && filled <= 1 - headroom; }
};

PlanOutcome outcome_of(const Scenario&, const Result&);

/// Judges and simulates plans of one scenario in parallel, each plan once. Outcomes in the journal are reused.
class PlanRunner {
 public:
  /// The journal may have no file. All arguments must outlive the runner. `changed`: description of changes of the
  /// scenario that are not in its document.
  PlanRunner(const Scenario& scenario, const PlanSpace& space, Journal& journal, const std::string& changed = "");

  /// Returns the outcomes in the order of the points. Ends early if it is interrupted: missing outcomes then have the
  /// error "interrupted". Calls `done` with each simulated outcome.
  std::vector<PlanOutcome> outcomes(const std::vector<PlanPoint>&,
                                    const std::function<void(const PlanOutcome&)>& done = {});
  /// Returns a lower bound of each group's step time (see PlanJudge::group_floors). Calls `done` with the number of
  /// finished groups.
  std::vector<double> group_floors(const std::vector<PlanPoint>& groups,
                                   const std::function<void(std::size_t)>& done = {});
  /// Judges all plans of each group, in the order of `PlanSpace::points`.
  std::vector<std::vector<JudgedPlan>> judge(const std::vector<PlanPoint>& groups);
  std::vector<JudgedPlan> judged_points(const std::vector<PlanPoint>&);
  double capacity() const { return judges_.capacity(); }
  /// Returns the number of plans that were simulated or found in the journal.
  std::size_t simulated_plans() const { return simulated_; }

 private:
  const PlanSpace& space_;
  PlanJudges judges_;
  Journal& journal_;
  std::string key_;
  std::map<std::string, PlanOutcome> outcome_of_key_;
  std::size_t simulated_ = 0;

  std::string key_of(const PlanPoint&) const;
  PlanOutcome simulate_plan(const PlanPoint&);
};

}  // namespace trainyard
