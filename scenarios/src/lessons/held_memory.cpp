#include "scenarios/src/lessons/held_memory.hpp"

#include "sim/executor/simulation.hpp"
#include "strategies/step/training_programs.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {

std::vector<MemoryUse::ByClass> held_memory(const StaticMemory& of_rank, int ranks) {
  TrainingPlan plan = replica_plan(std::make_shared<const Network>(), ranks);
  plan.stages.front().memory = of_rank;
  Names names;
  const TrainingPrograms programs(plan, names);
  IdealMachine machine("rank");
  MemoryUse memory;
  run_programs(machine, programs.all(), {{&memory}});
  std::vector<MemoryUse::ByClass> held;
  for (Actor rank = 0; rank < ranks; ++rank) held.push_back(memory.parts_at_peak(rank));
  return held;
}

}  // namespace trainyard
