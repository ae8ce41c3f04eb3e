#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/machine.hpp"

namespace trainyard {

/// Why some actors compute slower than others, or slower now than then. Their work takes so many times its time:
enum class StragglerKind : std::uint8_t {
  constant,          ///< `factor`
  uniform,           ///< drawn from [1 − spread, 1 + spread]
  lognormal,         ///< exp(sigma·z − sigma²/2), z standard normal: 1 on average
  exponential_tail,  ///< 1 + an exponential time of mean `mean` (the shifted exponential of Dutta et al. 2018)
  one_slow,          ///< `factor`, of one actor
  periodic,          ///< `factor` in the first `busy` of every `period` steps: another job takes its turn
};
const std::vector<std::string>& straggler_names();  ///< as scenarios write them, in the order of the kinds

struct Straggler {
  StragglerKind kind = StragglerKind::constant;
  std::vector<bool> slow;       ///< by actor: is it meant? Empty: all are
  std::vector<double> factors;  ///< constant: by actor, 1 beyond its end; empty: `factor`
  double factor = 1, spread = 0, sigma = 0, mean = 0;
  std::uint32_t period = 1, busy = 0;  ///< steps
  std::uint64_t seed = 1;
};

/// How many times as long the work of a step takes an actor. Draws are made by hashing the seed, the actor and the step:
/// no state, so that they are the same whatever the order of events. One step's work of an actor has one draw.
double slowdown(const Straggler&, Actor, std::uint32_t step);

/// A machine whose actors up to some number have speeds of their own; several reasons multiply.
class StragglerMachine : public Machine {
 public:
  /// `actors`: beyond them nobody straggles (servers).
  StragglerMachine(Machine& base, std::vector<Straggler> stragglers, Actor actors)
      : base_(base), stragglers_(std::move(stragglers)), actors_(actors) {}

  std::span<const Link> links() const override { return base_.links(); }
  Cost price(const Work&, Actor) const override;
  Route route(Actor from, Actor to, PathClass path_class) const override { return base_.route(from, to, path_class); }
  const Contention* contention() const override { return base_.contention(); }
  void link_state(LinkId link, bool up) override { base_.link_state(link, up); }
  std::string cause_of_cut(Actor from, Actor to) const override { return base_.cause_of_cut(from, to); }
  std::string actor_name(Actor actor) const override { return base_.actor_name(actor); }
  /// Those who draw their times are unlike all others.
  std::uint64_t likeness(Actor) const override;

 private:
  Machine& base_;
  std::vector<Straggler> stragglers_;
  Actor actors_;
};

}  // namespace trainyard
