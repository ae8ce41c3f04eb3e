#pragma once
#include <string>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

struct TrainingPlan;

/// The share of a GPU's memory that a search leaves free where nobody says: what a peak does not hold. A peak is what is
/// allocated; the allocator reserves more, context and libraries take theirs. A stack's workspace, which a peak holds,
/// is counted towards them.
double default_headroom(const Scenario&);
/// "8 %", "0.08" or "0". Throws UserError.
double parse_headroom(const std::string&);
/// What plans may hold of a GPU's memory: "73.6 of 80 GiB"; without a headroom "80 GiB".
std::string usable_memory(double capacity, double headroom);

/// What the GPU of a plan's fullest rank holds at its peak, told without simulating.
///
/// Tasks and layers of a stage follow each other on one stream, so that what they take and give back comes in the
/// order of the program whenever it happens. Exact at ZeRO stages 0 and 1, and at stage 2 where the stack copies
/// gradients into buckets; where it does not, whole gradients of buckets that are filled or under way do not count. At
/// stage 3 gathered parameters and whole gradients of one layer count, which are there while it is computed with; more
/// may be under way, which only a simulation tells.
struct PlanMemory {
  Bytes peak;
  bool exact = true;  ///< false: at least this much
};
/// `plan`: its stages are laid out.
PlanMemory memory_of(const Scenario&, const TrainingPlan& plan);

}  // namespace trainyard
