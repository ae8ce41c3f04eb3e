#pragma once
#include <string>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

struct TrainingPlan;

/// Returns the default share of a GPU's memory that a search leaves free. It covers memory outside of the peak of
/// allocated memory: the allocator reserves more than that, and the CUDA context and libraries need some. The stack's
/// workspace, which the peak includes, is subtracted.
double default_headroom(const Scenario&);
/// Returns true if a simulated peak leaves this share of the fullest GPU's memory free.
bool leaves_headroom(Bytes peak, Bytes capacity, double headroom);
/// Parses "8 %", "0.08" or "0". Throws UserError.
double parse_headroom(const std::string&);
/// Describes the memory that plans may use: "73.6 of 80.0 GiB"; without a headroom "80.0 GiB".
std::string usable_memory(double capacity, double headroom);

/// The peak memory of a plan's fullest rank, computed without a simulation.
///
/// Tasks and layers of a stage run one after the other on a single stream, so allocations happen in the order of the
/// program, whatever their times. The peak is exact at ZeRO stages 0 and 1, and at stage 2 if the stack copies
/// gradients into buckets. If it does not copy them, whole gradients of buckets that are filled or in flight do not
/// count. At stage 3, only the layer in progress counts with its gathered parameters and whole gradients, although more
/// layers may be in flight, which only a simulation shows.
struct PlanMemory {
  Bytes peak;
  bool exact = true;  ///< false: the peak is a lower bound
  bool fits = true;   ///< the memory that a stage needs with this peak is within the largest GPU (`DeviceMemory::fits`)
};
/// Computes the peak memory. `plan` must have its stages laid out.
PlanMemory memory_of(const Scenario&, const TrainingPlan& plan);

}  // namespace trainyard
