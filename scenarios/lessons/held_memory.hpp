#pragma once
#include <vector>

#include "models/software/training_memory.hpp"
#include "sim/observers/memory_use.hpp"

namespace trainyard {

/// What every rank holds at most while all take their parts one after another, by memory class; simulated, in a child.
std::vector<MemoryUse::ByClass> held_memory(const std::vector<StaticMemory>& of_ranks);

}  // namespace trainyard
