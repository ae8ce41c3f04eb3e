#pragma once
#include <string>

#include "strategies/plan/training_calls.hpp"
#include "strategies/step/training_programs.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {

// What experiments with data-parallel steps of a lecture are made of.

/// What takes so long on a device of star_cluster.
Work milliseconds(double ms);
/// As many equal layers, each of one tensor of so many elements; a forward pass of no FLOPs is none.
Network simple_layers(int layers, double elements, const Work& backward, const Work& forward = {},
                      Precision = Precision::fp32);
/// A bucket a layer, in elements of four bytes.
TrainingPlan simple_plan(const Network&, int ranks, const std::string& all_reduce, bool overlap);
/// What its first rank takes for a step on star_cluster, and what of it is an all-reduce beside which nothing goes on; s.
struct StepTimes {
  double total = 0, exposed = 0;
};
StepTimes data_parallel_time(const TrainingPlan&, BytesPerSecond link);
/// So that ranks wait for each other, and no more: nothing that is sent has bytes.
void send_nothing(TrainingPlan&);

}  // namespace trainyard
