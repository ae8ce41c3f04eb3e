#pragma once
#include <vector>

#include "sim/executor/actor_state.hpp"
#include "sim/executor/context.hpp"
#include "sim/executor/links.hpp"

namespace trainyard::execution {

/// Tracks the kinds of operations that run at once on an actor, and derives the speed of its work and its ports. Sets
/// and moves the timers of work at the end of each time step.
class Interference {
 public:
  Interference(Context& context, ActorTable& table, Links& links)
      : context_(context), table_(table), links_(links), contention_(context.machine.contention()) {}

  /// Counts an operation of this kind that begins (+1) or ends (−1).
  void change_active(Actor actor, Kind kind, int change) {
    if (contention_) count(actor, kind, change);
  }
  /// Counts a message that begins (+1) or ends (−1) at the actor that sends or receives it.
  void change_moving(Actor actor, Kind kind, bool on_slow_route, int change) {
    change_active(actor, on_slow_route ? Kind::join : kind, change);
  }
  /// Takes note of work that has begun. It gets its timer when the time step settles, together with everything that
  /// runs beside it.
  void add_work(Actor actor);
  /// Ends a time step.
  void settle();
  /// Moves to `actors` the actors on which something may have begun while an interval of a series runs.
  void take_interrupted(std::vector<Actor>& actors) {
    if (!interrupted_.empty()) actors.swap(interrupted_);
  }

 private:
  Context& context_;
  ActorTable& table_;
  Links& links_;
  const Contention* contention_;
  std::vector<Actor> unsettled_, interrupted_;

  void count(Actor, Kind, int change);
  void settle_later(Actor);
  void retime(Actor, KindSet);
  void slow_ports(Actor, KindSet);
};

}  // namespace trainyard::execution
