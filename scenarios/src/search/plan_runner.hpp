#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/search/plan_judge.hpp"
#include "scenarios/src/studies/sweeps/sweep_journal.hpp"

namespace trainyard {

struct Result;

/// What simulating a plan gives. Times in s, sizes in bytes.
struct PlanOutcome {
  double step_time = 0, peak = 0, mfu = 0, samples_per_s = 0, tokens_per_s = 0;
  double compute = 0, bubble = 0, exposed = 0, optimizer = 0;
  double filled = 0;  ///< share of its memory that the fullest GPU takes at its peak
  bool fits = false;
  std::string error;      ///< why it could not be simulated
  double operations = 0;  ///< that its simulation ran: ranks that are alike run once, kernels in a row as one
  bool good() const { return error.empty() && fits; }
  /// Good, and that share of the fullest GPU stays free.
  bool leaves(double headroom) const { return good() && filled <= 1 - headroom; }
};

PlanOutcome outcome_of(const Result&);

/// Judges and simulates plans of one scenario side by side, each plan once; what a journal has is not done again.
class PlanRunner {
 public:
  /// The journal may be one without a file. All must outlive it. `changed`: what of the scenario its document does
  /// not say.
  PlanRunner(const Scenario& scenario, const PlanSpace& space, Journal& journal, const std::string& changed = "");

  /// In the order of the points. Ends early when interrupted: what is missing then has the error "interrupted". `done`
  /// is told each that was simulated.
  std::vector<PlanOutcome> outcomes(const std::vector<PlanPoint>&,
                                    const std::function<void(const PlanOutcome&)>& done = {});
  /// The least times of groups.
  std::vector<double> group_floors(const std::vector<PlanPoint>& groups,
                                   const std::function<void(std::size_t)>& done = {});
  /// All plans of each group, judged, in the order of `PlanSpace::points`.
  std::vector<std::vector<JudgedPlan>> judged(const std::vector<PlanPoint>& groups);
  std::vector<JudgedPlan> judged_points(const std::vector<PlanPoint>&);
  double capacity() const { return judges_.capacity(); }
  std::size_t simulated() const { return simulated_; }  ///< or known from the journal

 private:
  const PlanSpace& space_;
  PlanJudges judges_;
  Journal& journal_;
  std::string key_;
  std::map<std::string, PlanOutcome> known_;
  std::size_t simulated_ = 0;

  std::string key_of(const PlanPoint&) const;
  PlanOutcome simulate_plan(const PlanPoint&);
};

}  // namespace trainyard
