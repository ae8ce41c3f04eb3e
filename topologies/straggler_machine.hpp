#pragma once
#include <cstdint>
#include <vector>

#include "sim/machine.hpp"

namespace trainyard {

/// How much slower each actor computes than the machine beneath says.
struct Slowdown {
  std::vector<double> factor;  ///< by actor; 1 beyond its end
  double spread = 0;  ///< each piece of work takes a uniform random share in [1 − spread, 1 + spread] of its time
  std::uint64_t seed = 1;
};

/// A machine whose actors have speeds of their own. Random shares depend on the seed, the actor and the number of the
/// piece of work alone, so they are the same whatever the order of events.
class StragglerMachine : public Machine {
 public:
  StragglerMachine(Machine& beneath, Slowdown slowdown) : beneath_(beneath), slowdown_(std::move(slowdown)) {}

  std::span<const Link> links() const override { return beneath_.links(); }
  Cost price(const Work&, Actor) const override;
  Route route(Actor from, Actor to, PathClass path) const override { return beneath_.route(from, to, path); }
  bool interferes() const override { return beneath_.interferes(); }
  double speed(Actor actor, Kind kind, KindSet active) const override { return beneath_.speed(actor, kind, active); }
  std::span<const LinkId> ports(Actor actor) const override { return beneath_.ports(actor); }
  void link_state(LinkId link, bool up) override { beneath_.link_state(link, up); }
  std::string actor_name(Actor actor) const override { return beneath_.actor_name(actor); }

 private:
  Machine& beneath_;
  Slowdown slowdown_;
  mutable std::vector<std::uint64_t> priced_;  // pieces of work so far, by actor
};

}  // namespace trainyard
