// Memory, traffic and work of each rank and server.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/src/running/step_result.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

/// Whether two sums are equal, except for rounding. After a search for steps, some messages are under way at the begin
/// and the end of the averaged steps, so traffic is compared within kUnderWay.
bool same(double a, double b, double tolerance = 1e-9) { return std::abs(a - b) <= tolerance * std::max(a, b); }
constexpr double kUnderWay = 0.1;

bool alike(const Result::ActorUse& a, const Result::ActorUse& b, bool is_searched) {
  const double tolerance = is_searched ? kUnderWay : 1e-9;
  return same(a.memory, b.memory) && same(a.sent, b.sent, tolerance) && same(a.received, b.received, tolerance);
}

}  // namespace

double work_in_step(const StepRun& run, Actor actor) {
  const bool is_rank = actor < run.plan.ranks();  // only ranks have averaged steps of their own
  const Actor seen = run.actor_of_rank(actor);
  const BreakdownParts parts = is_rank ? run.window.parts(seen) : run.breakdown.parts(seen);
  double sum = 0;
  for (const auto& [group, seconds] : parts.work) sum += seconds.value;
  return sum / (is_rank              ? run.window.own_steps(seen)
                : run.planned.search ? run.window.simulated_steps()
                                     : run.plan.steps);
}

void book_actors(const StepRun& run, Result& r) {
  if (run.scenario.plan.mechanism->ranks_alike()) return;
  const int ranks = run.plan.ranks();
  const bool is_searched = run.planned.search.has_value();
  int first = 0;  // first rank of the last group
  for (Actor actor = 0; actor < std::max(ranks, run.fold ? 0 : run.traffic.actors()); ++actor) {
    const bool has_own_steps = is_searched && actor < ranks && !run.is_synchronous();
    const double steps = has_own_steps ? run.window.own_steps(actor) : run.traffic_steps();
    const Traffic& traffic = run.traffic_of_steps();
    const Actor seen = run.actor_of_rank(actor);
    Result::ActorUse use{"",
                         1,
                         run.memory.peak(seen).value,
                         traffic.sent(seen).value / steps,
                         traffic.received(seen).value / steps,
                         work_in_step(run, actor)};
    if (actor >= ranks) {
      use.name = run.machine.top().actor_name(actor);
      if (use.memory + use.sent + use.received > 0) r.actors.push_back(use);
      continue;
    }
    if (actor > 0 && alike(r.actors.back(), use, is_searched)) {
      Result::ActorUse& group = r.actors.back();
      ++group.count;
      if (is_searched) {
        group.sent += (use.sent - group.sent) / group.count;
        group.received += (use.received - group.received) / group.count;
      }
      group.work += (use.work - group.work) / group.count;
      group.name = fmt::format("ranks {}-{}", first, actor);
      continue;
    }
    first = actor;
    use.name = fmt::format("rank {}", actor);
    r.actors.push_back(use);
  }
}

}  // namespace trainyard
