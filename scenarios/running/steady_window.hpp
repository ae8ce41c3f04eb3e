#pragma once
#include <vector>

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

  bool sees_transfers() const override { return false; }
  void finished(const OpRun&) override;

  Seconds begin(Actor) const;
  Seconds end(Actor) const;
  BreakdownParts parts(Actor) const;

 private:
  struct State {
    int steps = 0;
    double begin = 0, end = 0;
    BreakdownParts before, after;
  };
  const Breakdown& breakdown_;
  NameId step_over_;
  int warm_steps_, steps_;
  std::vector<State> actors_;
};

}  // namespace trainyard
