#include "scenarios/planning/step_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/reading/nearest.hpp"
#include "scenarios/planning/size.hpp"

namespace trainyard {
namespace {

// Steps that are looked at of samples that come in batches, where the plan does not say: enough for what comes in turns.
constexpr int kStepsWithInput = 8;
// Of stragglers that are drawn, the mean of so many: some 0.5 % off where a step's draws differ by 7 %. Fewer where that
// would be more operations than this: about a second.
constexpr int kMostDrawnSteps = 200;
constexpr double kMostDrawnOperations = 4e5;
// Steps before those that are looked at: no more operations than these, some ten seconds.
constexpr double kMostWarmOperations = 4e6;

/// Until all buffers are as full as they stay, and fast workers as far ahead as they may be.
double steps_to_steady_state(const Scenario& s, const TrainingPlan& plan) {
  const double warm = s.plan.mechanism->rhythm().warm;
  return s.input.used() ? std::max(warm, 3.0 + (2 * s.input.prefetch + 1) / plan.micro_batches) : warm;
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

int steps_by_default(const Scenario& s, const TrainingPlan& plan) {
  const StepRhythm rhythm = s.plan.mechanism->rhythm();
  std::int64_t steps = rhythm.steps > 0 ? rhythm.steps : s.input.used() ? kStepsWithInput : 1, unit = rhythm.turns;
  if (!s.prescribed_step.given() && steps_differ(s.slow)) {
    const auto affordable = static_cast<std::int64_t>(
        std::clamp(kMostDrawnOperations / operations_of_step(s, plan), 1.0, 1.0 * kMostDrawnSteps));
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

/// Steps that the scenario says.
int checked_steps(const Scenario& s) {
  const StepRhythm rhythm = s.plan.mechanism->rhythm();
  const int steps = s.plan.steps;
  if (steps % rhythm.turns != 0)
    fail(s.plan.steps_place, fmt::format("plan.steps: {} is not a multiple of {} ({}); nearest: {}", steps,
                                         rhythm.turns, rhythm.turns_reason, nearest_multiples(rhythm.turns, steps)));
  if (steps < rhythm.fewest)
    fail(s.plan.steps_place, fmt::format("plan.steps: {} of workers that are not in step say little of their rate; at "
                                         "least {}",
                                         steps, rhythm.fewest));
  return steps;
}

}  // namespace

bool steps_differ(const SlowParts& slow) {
  return common_period(slow) > 1 || std::any_of(slow.stragglers.begin(), slow.stragglers.end(), drawn);
}

void choose_steps(Plan& plan, const Scenario& s) {
  plan.training.steps = s.plan.steps > 0 ? checked_steps(s) : steps_by_default(s, plan.training);
  const double wanted = steps_to_steady_state(s, plan.training);
  if (wanted > 0)
    plan.warm_steps =
        static_cast<int>(std::min(wanted, std::max(1.0, kMostWarmOperations / operations_of_step(s, plan.training))));
}

std::string steps_in_words(const Scenario& s, const Plan& plan) {
  const int steps = plan.training.steps;
  const bool differ = steps_differ(s.slow);
  if (steps == 1 && plan.warm_steps == 0 && !differ) return "";
  std::string text = fmt::format("{}{} looked at", steps, s.plan.mechanism->in_step() ? "" : " of each worker");
  if (plan.warm_steps > 0) text += fmt::format(", after {} before", plan.warm_steps);
  if (const double wanted = steps_to_steady_state(s, plan.training); plan.warm_steps < wanted)
    text += fmt::format(" ({:.0f} would be sure to reach the staleness bound)", wanted);
  if (!differ) return text;
  if (steps == 1)
    return text + fmt::format(": one draw, no mean; a step has some {:.2g} operations, plan.steps takes more",
                              operations_of_step(s, plan.training));
  return text + ", each with draws of its own: the mean of them";
}

}  // namespace trainyard
