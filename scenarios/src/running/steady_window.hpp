#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "scenarios/src/running/steady_state.hpp"
#include "sim/observers/breakdown.hpp"

namespace trainyard {

/// Leaves the first steps of a run out of its breakdown: buffers fill in them; and what comes after the last step. Every
/// actor's own steps count.
class SteadyWindow : public Observer {
 public:
  /// `step_over`: the name of the operation that ends a step. The breakdown must observe before this one does.
  /// `steps` are looked at after the warm ones.
  SteadyWindow(const Breakdown& breakdown, NameId step_over, int warm_steps, int steps)
      : breakdown_(breakdown), step_over_(step_over), warm_steps_(warm_steps), steps_(steps) {}

  /// Whose ends of steps make a step of all, where which steps are looked at is to be found.
  struct Ends {
    Actor first = 0, behind = 1;           ///< actors from the one to before the other
    bool together = true;                  ///< a step of all has one of each; false: as many as there are actors
    bool in_step = true;                   ///< own steps of actors are steps of all
    std::function<void()> over = nullptr;  ///< called after each step of all
  };
  /// Before the run. `steps` and `warm_steps` of the constructor are then what the search begins with.
  void find(const StepSearch&, Ends);
  const bool& enough() const { return enough_; }  ///< no further step is needed

  /// The end of a step is in no round.
  Interest interest() const override { return {.transfers = false, .stretches = true, .rounds = true}; }
  void finished(const OpRun&) override;

  int warm_steps() const { return warm_steps_ + (state_ ? state_->warm() : 0); }
  int steps() const { return state_ ? state_->steps() : steps_; }
  /// Of all, warm ones among them, up to now.
  int simulated() const { return state_ ? static_cast<int>(overs_.size()) : warm_steps_ + steps_; }
  const std::optional<SteadyState>& state() const { return state_; }
  /// Of those looked at, of all: when they began and ended, and the operation with which they did. Found ones only.
  Seconds begin() const { return Seconds{overs_at(warm_steps())}; }
  Seconds end() const { return Seconds{overs_at(simulated())}; }
  OpId last() const { return last_; }

  // Of an actor's own steps among those looked at.
  Seconds begin(Actor) const;
  Seconds end(Actor) const;
  double own_steps(Actor) const;
  BreakdownParts parts(Actor) const;

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
  std::vector<double> overs_;  // by step of all
  std::vector<int> missing_;   // by step of all: actors that have not ended it yet
  std::uint64_t ended_ = 0;

  double overs_at(int steps) const { return steps > 0 ? overs_[position(steps) - 1] : 0; }
  bool ends_step(Actor, std::size_t own);
  void step_over(const OpRun&);
  const State* find(Actor) const;
  std::pair<std::size_t, std::size_t> own(const State&) const;
};

}  // namespace trainyard
