#include "scenarios/src/planning/step_counts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "models/reading/nearest.hpp"
#include "scenarios/src/planning/size.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {
namespace {

// Steps that are looked at of samples that come in batches, where the plan does not say: enough for what comes in turns.
constexpr int kStepsWithInput = 8;
// Of steps that differ from each other, so many at most, and fewer where that would be more operations than these: less
// than a second, and one or two of workers out of step. Beyond some thousand steps what is not modelled matters more than
// the mean.
constexpr int kMostSteps = 2000;
constexpr double kMostDrawnOperations = 4e5, kMostOutOfStepOperations = 1e6;
// Steps at least, before anything is told of those that differ: of so few an interval may be small by accident. One of
// workers out of step is many observations.
constexpr int kFewestDrawn = 100, kFewestOutOfStep = 20;
// Steps before those that are looked at: no more operations than these, some ten seconds.
constexpr double kMostWarmOperations = 4e6;
// MSER-5 (White 1997) tells the warm-up by means of so many observations, and of so few means nothing.
constexpr int kObservations = 5, kFewestBatches = 10;

// Where steps are alike, the mean of more of them is within a thousandth of a step of these: no more than one step
// overlaps with what comes before the first and after the last.
constexpr int kMostAlike = 1000;

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

bool any_drawn(const SlowParts& slow) { return std::any_of(slow.stragglers.begin(), slow.stragglers.end(), drawn); }

std::int64_t affordable_steps(const Scenario& s, const TrainingPlan& plan) {
  const double operations = s.plan.mechanism->in_step() ? kMostDrawnOperations : kMostOutOfStepOperations;
  const double most =
      std::min({operations / operations_of_step(s, plan).all, steps_of_the_clock(s, plan), 1.0 * kMostSteps});
  return static_cast<std::int64_t>(std::max(most, 1.0));
}

/// Steps in which everything that comes in turns does so.
std::int64_t unit_of(const Scenario& s, const TrainingPlan& plan) {
  const std::int64_t turns = s.plan.mechanism->rhythm().turns;
  if (common_period(s.slow) == 1) return turns;
  const std::int64_t both = std::lcm(turns, common_period(s.slow));
  return both <= affordable_steps(s, plan) ? both : turns;
}

/// The most of a search for enough; the one number of them otherwise.
int steps_by_default(const Scenario& s, const TrainingPlan& plan, bool differ) {
  const StepRhythm rhythm = s.plan.mechanism->rhythm();
  std::int64_t steps = rhythm.steps.value_or(s.input.used() ? kStepsWithInput : 1), unit = rhythm.turns;
  if (!s.prescribed_step.given()) {
    unit = unit_of(s, plan);
    if (differ || unit % common_period(s.slow) != 0) steps = std::max(steps, affordable_steps(s, plan));
  }
  return static_cast<int>((steps + unit - 1) / unit * unit);
}

/// Where workers are not in step, one step of all has an end of a step of each.
StepSearch search_of(const Scenario& s, const TrainingPlan& plan) {
  const Mechanism& mechanism = *s.plan.mechanism;
  const int ends = mechanism.in_step() ? 1 : s.ranks();
  StepSearch search;
  search.given = s.plan.steps.has_value();
  search.unit = static_cast<int>(unit_of(s, plan));
  const auto in_units = [&search](int steps) { return (steps + search.unit - 1) / search.unit * search.unit; };
  search.batch = in_units((kObservations + ends - 1) / ends);
  const int tell = kFewestBatches * search.batch;
  search.fewest = search.given ? plan.steps : in_units(mechanism.in_step() ? kFewestDrawn : kFewestOutOfStep);
  if (!search.given || mechanism.rhythm().varies) search.fewest = std::max(search.fewest, tell);
  return search;
}

/// Steps that the scenario says.
int checked_steps(const Scenario& s) {
  const StepRhythm rhythm = s.plan.mechanism->rhythm();
  const int steps = s.plan.steps.value();
  if (steps % rhythm.turns != 0)
    fail(s.plan.steps_place, fmt::format("plan.steps: {} is not a multiple of {} ({}); nearest: {}", steps,
                                         rhythm.turns, rhythm.turns_reason, nearest_multiples(rhythm.turns, steps)));
  if (steps < rhythm.fewest)
    fail(s.plan.steps_place, fmt::format("plan.steps: {} of workers that are not in step say little of their rate; at "
                                         "least {}",
                                         steps, rhythm.fewest));
  return steps;
}

/// No step is like the next where links, stragglers or samples have times of their own.
int most_alike(const Scenario& s) {
  if (!s.slow.links.empty() || !s.slow.stragglers.empty() || s.input.used()) return std::numeric_limits<int>::max();
  const int turns = s.plan.mechanism->rhythm().turns;
  return (kMostAlike + turns - 1) / turns * turns;
}

}  // namespace

double steps_to_steady_state(const Scenario& s, const TrainingPlan& plan) {
  const double warm = s.plan.mechanism->rhythm().warm;
  return s.input.used() ? std::max(warm, 3.0 + (2 * s.input.prefetch + 1) / plan.micro_batches) : warm;
}

namespace {

void count_steps(Plan& plan, const Scenario& s) {
  TrainingPlan& training = plan.training;
  const bool differ = !s.prescribed_step.given() && (s.plan.mechanism->rhythm().varies || any_drawn(s.slow));
  training.steps = s.plan.steps ? checked_steps(s) : steps_by_default(s, training, differ);
  if (!differ && s.plan.steps) training.steps = std::min(training.steps, most_alike(s));
  const double wanted = steps_to_steady_state(s, training);
  if (wanted > 0)
    plan.warm_steps =
        static_cast<int>(std::min(wanted, std::max(1.0, kMostWarmOperations / operations_of_step(s, training).all)));
  if (!differ) return;
  plan.search = search_of(s, training);
  // A worker's first step has weights that come unasked, and waits for no answers to the one before.
  if (!s.plan.mechanism->ranks_alike()) plan.warm_steps = std::max(plan.warm_steps, 1);
}

}  // namespace

void choose_steps(Plan& plan, const Scenario& s) {
  count_steps(plan, s);
  plan.operations = operations_of_step(s, plan.training);
}

Plan on_steps(Plan plan, int warm_steps, int steps) {
  if (!plan.search) return plan;
  plan.training.steps = plan.search->fewest = steps;
  plan.warm_steps = warm_steps;
  plan.search->given = true;
  plan.search->warms = false;
  return plan;
}

}  // namespace trainyard
