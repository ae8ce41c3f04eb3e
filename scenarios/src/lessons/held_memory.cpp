#include "scenarios/src/lessons/held_memory.hpp"

#include <nlohmann/json.hpp>

#include "sim/executor/simulation.hpp"
#include "sim/process/child.hpp"
#include "strategies/step/training_programs.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {

std::vector<MemoryUse::ByClass> held_memory(const StaticMemory& of_rank, int ranks) {
  const nlohmann::json result = json_in_child([&] {
    TrainingPlan plan = replica_plan(std::make_shared<const Network>(), ranks);
    plan.stages.front().memory = of_rank;
    Names names;
    const TrainingPrograms programs(plan, names);
    IdealMachine machine("rank");
    MemoryUse memory;
    run_programs(machine, programs.all(), {{&memory}});
    nlohmann::json held = nlohmann::json::array();
    for (Actor rank = 0; rank < ranks; ++rank) held.push_back(memory.parts_at_peak(rank));
    return held;
  });
  return result.get<std::vector<MemoryUse::ByClass>>();
}

}  // namespace trainyard
