#include "topologies/machines/straggler_machine.hpp"

#include <bit>
#include <cmath>

#include "sim/hashing.hpp"
#include "sim/index.hpp"

namespace trainyard {
namespace {

/// Draw number `which` of an actor's step, uniform in (0, 1).
double uniform(const Straggler& s, Actor actor, std::uint32_t step, std::uint64_t which) {
  return uniform_number(hash_numbers({s.seed, static_cast<std::uint64_t>(actor), step, which}));
}

bool is_affected(const Straggler& s, Actor actor) {
  return s.slow.empty() || (position(actor) < s.slow.size() && s.slow[position(actor)]);
}

}  // namespace

const std::vector<std::string>& straggler_names() {
  static const std::vector<std::string> names{"constant",         "uniform",  "lognormal",
                                              "exponential-tail", "one-slow", "periodic"};
  return names;
}

double slowdown(const Straggler& s, Actor actor, std::uint32_t step) {
  if (!is_affected(s, actor)) return 1;
  switch (s.kind) {
    case StragglerKind::constant:
      if (s.factors.empty()) return s.factor;
      return position(actor) < s.factors.size() ? s.factors[position(actor)] : 1;
    case StragglerKind::one_slow:
      return s.factor;
    case StragglerKind::uniform:
      return 1 - s.spread + 2 * s.spread * uniform(s, actor, step, 0);
    case StragglerKind::lognormal:
      return std::exp(s.sigma * normal_number(uniform(s, actor, step, 0), uniform(s, actor, step, 1)) -
                      s.sigma * s.sigma / 2);
    case StragglerKind::exponential_tail:
      return 1 - s.mean * std::log(uniform(s, actor, step, 0));
    case StragglerKind::periodic:
      return step % s.period < s.busy ? s.factor : 1;
  }
  return 1;
}

double slowdown(const std::vector<Straggler>& stragglers, Actor actor, std::uint32_t step) {
  double factor = 1;
  for (const Straggler& s : stragglers) factor *= slowdown(s, actor, step);
  return factor;
}

std::uint64_t StragglerMachine::equivalence_class(Actor actor) const {
  std::uint64_t hash = base_.equivalence_class(actor);
  if (actor >= actors_) return hash;
  if (shared_) return hash_numbers({hash, shared_->equivalence_class(actor)});
  for (const Straggler& s : stragglers_) {
    const bool draws = s.kind == StragglerKind::uniform || s.kind == StragglerKind::lognormal ||
                       s.kind == StragglerKind::exponential_tail;
    const bool affected = is_affected(s, actor);
    hash = hash_numbers({hash, affected ? 1U : 0U, draws && affected ? static_cast<std::uint64_t>(actor) + 1 : 0,
                         std::bit_cast<std::uint64_t>(draws ? 1.0 : slowdown(s, actor, 0))});
  }
  return hash;
}

double StragglerMachine::factor(Actor actor, std::uint32_t step) const {
  if (shared_) return shared_->factor(actor, step);
  if (factors_.empty()) factors_.resize(position(actors_));
  StepFactor& last = factors_[position(actor)];
  if (last.step != step) last = {step, slowdown(stragglers_, actor, step)};
  return last.factor;
}

Cost StragglerMachine::price(const Work& work, Actor actor) const {
  Cost cost = base_.price(work, actor);
  if (actor >= actors_) return cost;
  const double slower = factor(actor, work.sample);
  for (Seconds* part : {&cost.duration, &cost.launched, &cost.tail, &cost.host}) *part = *part * slower;
  return cost;
}

}  // namespace trainyard
