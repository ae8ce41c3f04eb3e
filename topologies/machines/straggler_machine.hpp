#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "sim/machine.hpp"

namespace trainyard {

/// A reason why actors compute more slowly: some actors, or all at some times. Each kind multiplies the time of work by
/// another factor:
enum class StragglerKind : std::uint8_t {
  constant,          ///< `factor`
  uniform,           ///< a number drawn from [1 − spread, 1 + spread]
  lognormal,         ///< exp(sigma·z − sigma²/2) with z standard normal: 1 on average
  exponential_tail,  ///< 1 + an exponential time of mean `mean` (the shifted exponential of Dutta et al. 2018)
  one_slow,          ///< `factor`, for one actor
  periodic,          ///< `factor` in the first `busy` of every `period` steps: another job takes its turn
};
const std::vector<std::string>& straggler_names();  ///< names in scenarios, in the order of the kinds

struct Straggler {
  StragglerKind kind = StragglerKind::constant;
  std::vector<bool> slow;       ///< indexed by actor: true if it straggles; empty: all do
  std::vector<double> factors;  ///< for constant: indexed by actor, 1 beyond its end; empty: `factor`
  double factor = 1, spread = 0, sigma = 0, mean = 0;  ///< as in the kinds
  std::uint32_t period = 1, busy = 0;                  ///< steps
  std::uint64_t seed = 1;
};

/// Factor by which the work of a step takes longer on an actor. Random numbers are hashes of the seed, the actor and
/// the step; therefore they do not depend on the order of events. All work of an actor in one step has the same factor.
double slowdown(const Straggler&, Actor, std::uint32_t step);
/// The product of the factors of several reasons.
double slowdown(const std::vector<Straggler>&, Actor, std::uint32_t step);

/// The factors of a run in which many actors share a drawn factor, so that they are equivalent.
class SharedFactors {
 public:
  virtual ~SharedFactors() = default;
  /// Factor by which the work of a step takes longer on an actor, of all reasons together.
  virtual double factor(Actor, std::uint32_t step) const = 0;
  /// Actors with equal numbers have equal factors in every step, if they are equivalent without stragglers.
  virtual std::uint64_t equivalence_class(Actor) const = 0;
};

/// A machine on which the first actors have speeds of their own. Several reasons multiply.
class StragglerMachine : public Machine {
 public:
  /// Actors from `actors` on do not straggle (servers).
  StragglerMachine(Machine& base, std::vector<Straggler> stragglers, Actor actors)
      : base_(base), stragglers_(std::move(stragglers)), actors_(actors) {}

  std::span<const Link> links() const override { return base_.links(); }
  Cost price(const Work&, Actor) const override;
  Route route(Actor from, Actor to, PathClass path_class) const override { return base_.route(from, to, path_class); }
  void visit_route(Actor from, Actor to, PathClass path_class,
                   const std::function<void(const Route&)>& visit) const override {
    base_.visit_route(from, to, path_class, visit);
  }
  const Contention* contention() const override { return base_.contention(); }
  void link_state(LinkId link, bool up) override { base_.link_state(link, up); }
  std::string cause_of_cut(Actor from, Actor to) const override { return base_.cause_of_cut(from, to); }
  std::string actor_name(Actor actor) const override { return base_.actor_name(actor); }
  /// The actors' factors come from `factors`, which must outlive their use. Null: each actor has its own.
  void share(const SharedFactors* factors) {
    shared_ = factors;
    factors_.clear();
  }
  const std::vector<Straggler>& stragglers() const { return stragglers_; }
  const Machine& base() const { return base_; }  ///< without stragglers
  /// An actor with drawn times is an equivalence class of its own, unless factors are shared.
  std::uint64_t equivalence_class(Actor) const override;

 private:
  Machine& base_;
  std::vector<Straggler> stragglers_;
  Actor actors_;
  const SharedFactors* shared_ = nullptr;
  /// The factor of an actor's step that was computed last: an actor computes the same step many times.
  struct StepFactor {
    std::uint64_t step = ~std::uint64_t{0};
    double factor = 1;
  };
  mutable std::vector<StepFactor> factors_;  // indexed by actor

  double factor(Actor, std::uint32_t step) const;
};

}  // namespace trainyard
