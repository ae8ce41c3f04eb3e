#pragma once
#include <vector>

#include "models/software/training_memory.hpp"
#include "sim/observers/memory_use.hpp"

namespace trainyard {

/// What every rank holds at most, by memory class, in a step of replicas that keep so much each and compute nothing;
/// simulated.
std::vector<MemoryUse::ByClass> held_memory(const StaticMemory& of_rank, int ranks);

}  // namespace trainyard
