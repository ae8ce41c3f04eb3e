// What each rank and server holds, sends and receives.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/running/step_result.hpp"

namespace trainyard {
namespace {

/// Sums over many messages differ in their last digits.
bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

bool alike(const Result::ActorUse& a, const Result::ActorUse& b) {
  return same(a.memory, b.memory) && same(a.sent, b.sent) && same(a.received, b.received);
}

}  // namespace

void book_actors(const StepRun& run, Result& r) {
  if (run.scenario.plan.mechanism->ranks_alike()) return;
  const int ranks = run.plan.ranks();
  int first = 0;  // of the ranks in the last group
  for (Actor actor = 0; actor < std::max(ranks, run.fold ? 0 : run.traffic.actors()); ++actor) {
    const double steps = run.plan.steps;
    Result::ActorUse use{"", 1, run.memory.peak(run.seen(actor)).value, run.traffic.sent(run.seen(actor)).value / steps,
                         run.traffic.received(run.seen(actor)).value / steps};
    if (actor >= ranks) {
      use.name = run.machine.top().actor_name(actor);
      if (use.memory + use.sent + use.received > 0) r.actors.push_back(use);
      continue;
    }
    if (actor > 0 && alike(r.actors.back(), use)) {
      r.actors.back().count += 1;
      r.actors.back().name = fmt::format("ranks {}-{}", first, actor);
      continue;
    }
    first = actor;
    use.name = fmt::format("rank {}", actor);
    r.actors.push_back(use);
  }
}

}  // namespace trainyard
