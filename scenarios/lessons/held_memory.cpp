#include "scenarios/lessons/held_memory.hpp"

#include <nlohmann/json.hpp>

#include "sim/executor/simulation.hpp"
#include "sim/list_program.hpp"
#include "sim/process/child.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {

std::vector<MemoryUse::ByClass> held_memory(const std::vector<StaticMemory>& of_ranks) {
  using nlohmann::json;
  const json result = json::parse(in_child([&of_ranks] {
    IdealMachine machine("rank");
    Simulation simulation(machine);
    MemoryUse memory;
    simulation.observe(memory);
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
      std::vector<Op> ops;
      for (const MemoryPart& part : of_ranks[rank].parts) {
        Op& op = ops.emplace_back();
        op.memory.change = part.bytes.value;
        op.set_memory_class(static_cast<std::uint8_t>(part.memory_class));
      }
      simulation.add(static_cast<Actor>(rank), std::make_unique<ListProgram>(std::move(ops)));
    }
    simulation.run();
    json ranks = json::array();
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
      ranks.push_back(memory.parts_at_peak(static_cast<Actor>(rank)));
    return ranks.dump();
  }));
  return result.get<std::vector<MemoryUse::ByClass>>();
}

}  // namespace trainyard
