#pragma once
#include <vector>

#include "models/software/training_memory.hpp"
#include "sim/observers/memory_use.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// What every rank holds at most while all take their parts one after another, by memory class; simulated, in a child.
std::vector<MemoryUse::ByClass> held_memory(const std::vector<StaticMemory>& of_ranks);

/// The three kinds of state alone: no workspace, no copies of gradients.
StaticMemory model_states(const HeldElements&, Precision, const Optimizer&);

}  // namespace trainyard
