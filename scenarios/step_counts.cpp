#include "scenarios/step_counts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/nearest.hpp"
#include "scenarios/read_updates.hpp"

namespace trainyard {
namespace {

// Steps that are looked at where the plan does not say. Of workers that do not wait for each other, and of samples that
// come in batches: enough for what comes in turns.
constexpr int kStepsOutOfStep = 20, kStepsWithInput = 8;
// A worker that is a quarter faster than the slowest one is ahead by the whole bound after so many times the bound.
constexpr int kStepsToTheBound = 4;

bool out_of_step(const Scenario& s) {
  const ServerChoice& servers = s.parallel.servers;
  return s.parallel.mechanism == Mechanism::parameter_server && (!servers.in_step() || servers.backup_workers > 0);
}

/// Until all buffers are as full as they stay, and fast workers as far ahead as they may be.
int warm_steps_of(const Scenario& s) {
  int warm = 0;
  if (s.plan.updates.delay > 0) warm = 4 * turns_of(s.plan.updates);
  if (s.input.used()) warm = std::max(warm, 3 + (2 * s.input.prefetch + 1) / s.plan.micro_batches);
  if (out_of_step(s) && s.parallel.servers.consistency == Consistency::stale)
    warm = 1 + (kStepsToTheBound + 1) * s.parallel.servers.staleness;
  return warm;
}

int steps_by_default(const Scenario& s) {
  const int unit = turns_of(s.plan.updates);
  int steps = 1;
  if (out_of_step(s))
    steps = kStepsOutOfStep;
  else if (s.plan.updates.used())
    steps = s.plan.updates.delay > 0 ? 4 * unit : unit;
  else if (s.input.used())
    steps = kStepsWithInput;
  return steps;
}

}  // namespace

void choose_steps(Scenario& s, const Place* said) {
  const int unit = turns_of(s.plan.updates);
  if (said && s.plan.steps % unit != 0)
    fail(*said, fmt::format("plan.steps: {} is not a multiple of {} ({}); nearest: {}", s.plan.steps, unit,
                            s.plan.updates.delay > 0 ? "updates that are late come in turns of delay + 1 steps"
                                                     : "plan.data_parallel.local_steps: one average each",
                            nearest_multiples(unit, s.plan.steps)));
  if (!said) s.plan.steps = steps_by_default(s);
  s.mesh_plan.steps = s.plan.steps;
  s.warm_steps = warm_steps_of(s);
}

std::string steps_in_words(const Scenario& s) {
  if (s.plan.steps == 1 && s.warm_steps == 0) return "";
  std::string text = fmt::format("{}{} looked at", s.plan.steps, out_of_step(s) ? " of each worker" : "");
  if (s.warm_steps > 0) text += fmt::format(", after {} before", s.warm_steps);
  return text;
}

}  // namespace trainyard
