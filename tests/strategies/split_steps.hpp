#pragma once
#include <catch2/catch.hpp>

#include "tests/strategies/simulated_step.hpp"

namespace trainyard::test {

/// Returns a step on a mesh of these sizes.
inline SplitStep split(int data, int pipeline, int tensor, int context = 1, int expert = 1) {
  SplitStep s;
  s.mesh.data = data;
  s.mesh.pipeline = pipeline;
  s.mesh.tensor = s.sharding.tensor = tensor;
  s.mesh.context = s.sharding.context = context;
  s.mesh.expert = s.sharding.expert = expert;
  return s;
}

/// Returns the step in the order of a schedule, with the least number of model chunks that the schedule takes.
inline SplitStep with_schedule(SplitStep s, const std::string& schedule, int micro_batches = 4) {
  s.schedule = schedule;
  s.chunks = pipeline_schedules().find(schedule, {}).least_chunks;
  s.micro_batches = micro_batches;
  return s;
}

/// Returns the step with experts on all ranks of a stage, each expert split over `tensor` ranks.
inline SplitStep with_expert_tensor(SplitStep s, int tensor) {
  s.mesh.expert_tensor = s.sharding.expert_tensor = tensor;
  return s;
}

/// Checks that the simulated step computes the step of one device.
inline void check(const TrainingTask& task, const SplitStep& s) {
  INFO(in_words(s));
  const StepOutcome out = simulated_step(task, s);
  INFO(out.worst);
  INFO(out.error);
  CHECK(out.error.empty());
  CHECK(out.difference < 1e-10);
  CHECK(out.hazards == 0);
}

}  // namespace trainyard::test
