#include "scenarios/planning/step_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/reading/nearest.hpp"
#include "scenarios/planning/size.hpp"
#include "scenarios/reading/read_updates.hpp"

namespace trainyard {
namespace {

// Steps that are looked at where the plan does not say. Of workers that do not wait for each other, and of samples that
// come in batches: enough for what comes in turns.
constexpr int kStepsOutOfStep = 20, kStepsWithInput = 8;
// Of stragglers that are drawn, the mean of so many: some 0.5 % off where a step's draws differ by 7 %. Fewer where that
// would be more operations than this: about a second.
constexpr int kMostDrawnSteps = 200;
constexpr double kMostDrawnOperations = 4e5;
// A worker that is a quarter faster than the slowest one is ahead by the whole bound after so many times the bound.
constexpr int kStepsToTheBound = 4;
// Steps before those that are looked at: no more operations than these, some ten seconds.
constexpr double kMostWarmOperations = 4e6;
// Between the first end of a step of the slowest worker and the last one of the fastest, each has to end some.
constexpr int kFewestOutOfStep = 4;

double operations_of_one_step(const Scenario& s) { return estimated_operations(s) / (s.plan.steps + s.warm_steps); }

bool out_of_step(const Scenario& s) {
  const ServerChoice& servers = s.parallel.servers;
  return s.parallel.mechanism == Mechanism::parameter_server && (!servers.in_step() || servers.backup_workers > 0);
}

/// Until all buffers are as full as they stay, and fast workers as far ahead as they may be.
double steps_to_steady_state(const Scenario& s) {
  double warm = 0;
  if (s.plan.updates.delay > 0) warm = 4 * turns_of(s.plan.updates);
  if (s.input.used()) warm = std::max(warm, 3.0 + (2 * s.input.prefetch + 1) / s.plan.micro_batches);
  if (out_of_step(s) && s.parallel.servers.consistency == Consistency::stale)
    warm = 1 + (kStepsToTheBound + 1.0) * s.parallel.servers.staleness;
  return warm;
}

/// After so many steps all stragglers that come and go do so again.
std::int64_t common_period(const SlowParts& slow) {
  constexpr std::int64_t most = 1 << 20;
  std::int64_t period = 1;
  for (const Straggler& s : slow.stragglers)
    if (s.kind == StragglerKind::periodic) period = std::min(most, std::lcm(period, std::int64_t{s.period}));
  return period;
}

bool drawn(const Straggler& s) {
  return s.kind == StragglerKind::uniform || s.kind == StragglerKind::lognormal ||
         s.kind == StragglerKind::exponential_tail;
}

int steps_by_default(const Scenario& s) {
  std::int64_t steps = 1, unit = turns_of(s.plan.updates);
  if (out_of_step(s))
    steps = kStepsOutOfStep;
  else if (s.plan.updates.used())
    steps = s.plan.updates.delay > 0 ? 4 * unit : unit;
  else if (s.input.used())
    steps = kStepsWithInput;
  if (s.said_step.time.value <= 0 && steps_differ(s.slow)) {
    const auto affordable = static_cast<std::int64_t>(
        std::clamp(kMostDrawnOperations / operations_of_one_step(s), 1.0, 1.0 * kMostDrawnSteps));
    const std::vector<Straggler>& all = s.slow.stragglers;
    if (std::any_of(all.begin(), all.end(), drawn)) steps = std::max(steps, affordable);
    const std::int64_t period = common_period(s.slow);
    if (const std::int64_t both = std::lcm(unit, period); both <= affordable)
      unit = both;
    else if (period > 1)
      steps = std::max(steps, affordable);
  }
  return static_cast<int>((steps + unit - 1) / unit * unit);
}

}  // namespace

bool steps_differ(const SlowParts& slow) {
  return common_period(slow) > 1 || std::any_of(slow.stragglers.begin(), slow.stragglers.end(), drawn);
}

void choose_steps(Scenario& s, const Place* said) {
  const int unit = turns_of(s.plan.updates);
  if (said && s.plan.steps % unit != 0)
    fail(*said, fmt::format("plan.steps: {} is not a multiple of {} ({}); nearest: {}", s.plan.steps, unit,
                            s.plan.updates.delay > 0 ? "updates that are late come in turns of delay + 1 steps"
                                                     : "plan.data_parallel.local_steps: one average each",
                            nearest_multiples(unit, s.plan.steps)));
  if (said && out_of_step(s) && !s.parallel.servers.in_step() && s.plan.steps < kFewestOutOfStep)
    fail(*said, fmt::format("plan.steps: {} of workers that are not in step say little of their rate; at least {}",
                            s.plan.steps, kFewestOutOfStep));
  if (!said) s.plan.steps = steps_by_default(s);
  s.mesh_plan.steps = s.plan.steps;
  const double wanted = steps_to_steady_state(s);
  s.warm_steps = 0;
  if (wanted > 0)
    s.warm_steps = static_cast<int>(std::min(wanted, std::max(1.0, kMostWarmOperations / operations_of_one_step(s))));
}

std::string steps_in_words(const Scenario& s) {
  const int steps = s.plan.steps;
  const bool differ = steps_differ(s.slow);
  if (steps == 1 && s.warm_steps == 0 && !differ) return "";
  std::string text = fmt::format("{}{} looked at", steps, out_of_step(s) ? " of each worker" : "");
  if (s.warm_steps > 0) text += fmt::format(", after {} before", s.warm_steps);
  if (const double wanted = steps_to_steady_state(s); s.warm_steps < wanted)
    text += fmt::format(" ({:.0f} would be sure to reach the staleness bound)", wanted);
  if (!differ) return text;
  if (steps == 1)
    return text + fmt::format(": one draw, no mean; a step has some {:.2g} operations, plan.steps takes more",
                              operations_of_one_step(s));
  return text + ", each with draws of its own: the mean of them";
}

}  // namespace trainyard
