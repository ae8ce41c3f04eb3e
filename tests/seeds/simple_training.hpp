#pragma once
#include <string>

#include "strategies/plan/training_calls.hpp"
#include "strategies/step/training_programs.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {

// Helpers of experiments with data-parallel steps.

/// Work that takes `ms` milliseconds on a device of star_cluster.
Work milliseconds(double ms);
/// Equal layers, each with one tensor of `elements` elements. Without FLOPs in `forward` they have no forward pass.
Network simple_layers(int layers, double elements, const Work& backward, const Work& forward = {},
                      Precision = Precision::fp32);
/// Replicas with a bucket for each layer, with elements of four bytes.
TrainingPlan simple_plan(const Network&, int ranks, const std::string& all_reduce, bool overlap);
/// The time of rank 0 for a step on star_cluster, and the exposed part of its all-reduces; s.
struct StepTimes {
  double total = 0, exposed = 0;
};
StepTimes data_parallel_time(const TrainingPlan&, BytesPerSecond link);
/// Makes all messages empty. Ranks still wait for each other.
void send_nothing(TrainingPlan&);

}  // namespace trainyard
