// What each rank and server holds, sends and receives.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/src/running/step_result.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

/// Sums over many messages differ in their last digits. Of steps that are found by looking some messages are under way at
/// the beginning and at the end.
bool same(double a, double b, double within = 1e-9) { return std::abs(a - b) <= within * std::max(a, b); }
constexpr double kUnderWay = 0.1;

bool alike(const Result::ActorUse& a, const Result::ActorUse& b, bool found) {
  const double within = found ? kUnderWay : 1e-9;
  return same(a.memory, b.memory) && same(a.sent, b.sent, within) && same(a.received, b.received, within);
}

}  // namespace

void book_actors(const StepRun& run, Result& r) {
  if (run.scenario.plan.mechanism->ranks_alike()) return;
  const int ranks = run.plan.ranks();
  const bool found = run.planned.search.has_value();
  int first = 0;  // of the ranks in the last group
  for (Actor actor = 0; actor < std::max(ranks, run.fold ? 0 : run.traffic.actors()); ++actor) {
    const bool own = found && actor < ranks && !run.in_step();
    const double steps = own ? run.window.own_steps(actor) : run.traffic_steps();
    const Traffic& traffic = run.traffic_of_steps();
    const Actor seen = run.seen(actor);
    Result::ActorUse use{"", 1, run.memory.peak(seen).value, traffic.sent(seen).value / steps,
                         traffic.received(seen).value / steps};
    if (actor >= ranks) {
      use.name = run.machine.top().actor_name(actor);
      if (use.memory + use.sent + use.received > 0) r.actors.push_back(use);
      continue;
    }
    if (actor > 0 && alike(r.actors.back(), use, found)) {
      Result::ActorUse& all = r.actors.back();
      ++all.count;
      if (found) {
        all.sent += (use.sent - all.sent) / all.count;
        all.received += (use.received - all.received) / all.count;
      }
      all.name = fmt::format("ranks {}-{}", first, actor);
      continue;
    }
    first = actor;
    use.name = fmt::format("rank {}", actor);
    r.actors.push_back(use);
  }
}

}  // namespace trainyard
