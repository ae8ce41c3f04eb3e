#pragma once
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "scenarios/src/planning/plan.hpp"
#include "sim/observers/breakdown.hpp"

namespace trainyard {

/// A mean is known well enough if half the width of its 95 % confidence interval is at most this share of it.
constexpr double kPrecision = 0.01;

/// Returns half the width of the 95 % confidence interval of the mean of values that may depend on their neighbours.
/// Uses batch means with Student's t (Law & Kelton 2000, section 9.5.3), in 20 batches (Schmeiser 1982: 10 to 30) of
/// whole units, or one batch per unit if there are fewer units. HUGE_VAL if there are fewer than two units.
double half_width(std::span<const double> values, std::size_t unit = 1);

/// Returns the number of values at the beginning that are warm-up, by MSER-5 (White 1997) over means of `batch` values:
/// it cuts so that the sum of squared errors of the remaining means, over their number squared, is least. 0 if there
/// are fewer than ten batches. A cut beyond the middle means that the warm-up is not over yet.
std::size_t warm_up(std::span<const double> values, std::size_t batch);

/// Finds, step by step, where the steady state of a run begins and when its mean step time is known.
class SteadyState {
 public:
  /// `steps`: number of steps to average if `search.is_given`, else the most steps.
  SteadyState(const StepSearch& search, int steps);

  /// Returns the most steps that a search takes.
  static int most(const StepSearch&, int steps);

  /// Adds the time of the next step. Returns whether the steps are enough.
  bool add(double seconds);
  int warm() const { return warm_; }  ///< number of warm-up steps; valid when the steps are enough
  int steps() const { return static_cast<int>(seconds_.size()) - warm_; }
  double half_width() const { return half_width_; }  ///< s; HUGE_VAL: one step has none

 private:
  StepSearch search_;
  int steps_, most_;
  std::size_t check_;  // number of steps at the next check
  std::vector<double> seconds_;
  int warm_ = 0;
  double half_width_ = 0;
};

/// Excludes from the breakdown the warm-up steps of a run, in which buffers fill, and the time after the last step.
/// Each actor has its own steps.
class SteadyWindow : public Observer {
 public:
  /// `step_over`: name of the operation that ends a step. The breakdown must come before this observer. `steps`: number
  /// of steps to average, after the warm-up steps.
  SteadyWindow(const Breakdown& breakdown, NameId step_over, int warm_steps, int steps)
      : breakdown_(breakdown), step_over_(step_over), warm_steps_(warm_steps), steps_(steps) {}

  /// The actors whose own steps make up a step of all, for a search for the steps to average.
  struct Ends {
    Actor first = 0, end = 1;    ///< actors `first` to `end` − 1
    bool is_joint = true;        ///< a step of all has one step of each actor; false: as many steps, of any actors
    bool is_synchronous = true;  ///< whether an actor's own steps are the steps of all
    std::function<void()> step_end = nullptr;  ///< called after each step of all
  };
  /// Starts a search for the steps to average. Call it before the run. The search begins with `steps` and `warm_steps`
  /// of the constructor.
  void find(const StepSearch&, Ends);
  const bool& enough() const { return enough_; }  ///< whether no further step is needed

  /// Identical rounds may be skipped, because the operation that ends a step is in no round.
  Interest interest() const override { return {.transfers = false, .stretches = true, .rounds = true}; }
  void finished(const OpRun&) override;

  int warm_steps() const { return warm_steps_ + (state_ ? state_->warm() : 0); }
  int steps() const { return state_ ? state_->steps() : steps_; }
  /// Returns the number of steps of all up to now, including warm-up steps.
  int simulated_steps() const { return state_ ? static_cast<int>(overs_.size()) : warm_steps_ + steps_; }
  const std::optional<SteadyState>& state() const { return state_; }
  /// Begin and end of the averaged steps of all, and the operation that ended them. Only after a search.
  Seconds begin() const { return Seconds{overs_at(warm_steps())}; }
  Seconds end() const { return Seconds{overs_at(simulated_steps())}; }
  OpId last() const { return last_; }

  // The averaged steps of one actor:
  Seconds begin(Actor) const;
  Seconds end(Actor) const;
  double own_steps(Actor) const;      ///< their number
  BreakdownParts parts(Actor) const;  ///< their breakdown
  /// The middle one of the averaged steps of one actor. `number` of `steps`, from 1 on.
  struct Step {
    double begin = 0, end = 0;  ///< s
    BreakdownParts parts;
    std::size_t number = 1, steps = 1;
  };
  Step middle_step(Actor) const;

 private:
  struct State {
    std::vector<double> ends{0};
    std::vector<std::vector<double>> booked{1};
  };
  const Breakdown& breakdown_;
  NameId step_over_;
  int warm_steps_, steps_;
  std::vector<State> actors_;

  std::optional<SteadyState> state_;
  Ends ends_;
  bool enough_ = false;
  OpId last_ = 0;
  std::vector<double> overs_;  // end of each step of all, s
  std::vector<int> missing_;   // for each step of all: number of actors that have not ended it yet
  std::uint64_t ended_ = 0;

  double overs_at(int steps) const { return steps > 0 ? overs_[position(steps) - 1] : 0; }
  bool ends_step(Actor, std::size_t step);
  void step_over(const OpRun&);
  const State* find(Actor) const;
  std::pair<std::size_t, std::size_t> averaged_steps(const State&) const;
};

}  // namespace trainyard
