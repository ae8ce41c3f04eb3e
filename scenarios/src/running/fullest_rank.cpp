#include "scenarios/src/running/fullest_rank.hpp"

#include <utility>

#include "models/software/training_memory.hpp"
#include "scenarios/src/planning/device_memory.hpp"

namespace trainyard {

Result::PeakMemory peak_memory(Bytes peak, const MemoryUse::ByClass& parts) {
  const auto bytes = [&parts](MemoryClass c) { return Bytes{parts[static_cast<std::size_t>(c)]}; };
  return {peak,
          bytes(MemoryClass::parameters),
          bytes(MemoryClass::gradients),
          bytes(MemoryClass::optimizer),
          bytes(MemoryClass::activations),
          bytes(MemoryClass::buffers)};
}

void book_fullest(const Scenario& s, const TrainingPlan& training, std::span<const RankMemory> ranks, Result& r) {
  // If GPUs differ, the fullest in proportion counts.
  const auto gpu = [&s](const RankMemory& memory) -> const Gpu& { return s.cluster.type_of_gpu(memory.rank).gpu; };
  const auto device_of = [&](const RankMemory& memory) {
    const auto stage = static_cast<std::size_t>(&training.stage_of(memory.rank) - training.stages.data());
    return device_memory(s, training, stage, memory.peak, gpu(memory));
  };
  const RankMemory* fullest = &ranks.front();
  DeviceMemory device = device_of(*fullest);
  int neediest_rank = fullest->rank;
  for (const RankMemory& other : ranks.subspan(1)) {
    if (const DeviceMemory candidate = device_of(other);
        std::pair{candidate.surely_fails(), candidate.share()} > std::pair{device.surely_fails(), device.share()}) {
      device = candidate;
      neediest_rank = other.rank;
    }
    if (other.peak / gpu(other).memory_capacity > fullest->peak / gpu(*fullest).memory_capacity) fullest = &other;
  }
  const auto [low, high] = device.interval();
  r.memory = {peak_memory(fullest->peak, fullest->parts),
              gpu(*fullest).memory_capacity,
              fullest->rank,
              s.plan.mesh.pipeline > 1 ? s.plan.mesh.coordinates(fullest->rank).pipeline : 0,
              device.reserved,
              device.device,
              device.needed,
              device.usable,
              neediest_rank};
  r.memory_interval = {low.value, high.value};
  r.fits = device.fits();
  r.risk = device.risk();
}

}  // namespace trainyard
