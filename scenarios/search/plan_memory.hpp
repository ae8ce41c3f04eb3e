#pragma once
#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// What the GPU of a plan's fullest rank holds at its peak, told without simulating.
///
/// Tasks and layers of a stage follow each other on one stream, so that what they take and give back comes in the order
/// of the program whenever it happens. Exact at ZeRO stages 0 to 2. At stage 3 gathered parameters and whole gradients of
/// one layer count, which are there while it is computed with; more may be under way, which only a simulation tells.
struct PlanMemory {
  Bytes peak;
  bool exact = true;  ///< false: at least this much
};
/// `plan`: its stages are laid out.
PlanMemory memory_of(const Scenario&, const TrainingPlan& plan);

}  // namespace trainyard
