#include "scenarios/src/studies/capacity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "scenarios/src/planning/step_counts.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/observers/memory_use.hpp"
#include "sim/observers/progress.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/step/training_programs.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

Overrides with_micro_batch(const Scenario& s, std::int64_t samples) {
  return {{"plan.micro_batch_size", fmt::format("{}", samples)},
          {"plan.global_batch_size",
           fmt::format("{}", samples * s.plan.mesh.data * (s.plan.splits_model() ? s.micro_batches() : 1))}};
}

}  // namespace

std::int64_t largest_that_fits(std::int64_t guess, const std::function<bool(std::int64_t)>& fits) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  std::int64_t good = 0, bad = guess;
  while (bad <= most && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

Bytes peak_memory(const Scenario& s) {
  if (s.plan.splits_model() || !s.plan.mechanism->all_reduces()) {  // the memory depends on the timing of other ranks
    SimulateOptions options;
    options.critical_path = false;
    Plan few = plan(s);
    if (few.search) few = on_steps(few, few.warm_steps, std::min(few.search->fewest, few.training.steps));
    return Bytes{simulate(s, few, options).memory.peak};
  }
  return peak_memory_alone(s, plan(s).training);
}

Bytes peak_memory_alone(const Scenario& s, TrainingPlan plan) {
  plan.mesh = {};
  plan.micro_batches = plan.steps = 1;
  plan.stages.front().tasks = one_stage_tasks(1);
  plan.lanes = {};
  plan.updates = {};
  plan.bucket_copy = false;  // the memory of buckets is part of the stage's
  ClusterSpec alone = s.cluster;
  alone.nodes = 1;
  alone.others.clear();
  alone.taken_out.clear();
  alone.fabric = nullptr;
  ClusterMachine machine(alone, s.software);
  Names names;
  const TrainingPrograms programs(plan, names);
  MemoryUse memory;
  run_programs(machine, programs.all(), {{&memory}});
  return memory.peak(0);
}

namespace {

/// Returns true if the scenario fits into the GPUs, and with offload or an input pipeline into hosts and drives too.
bool has_room(const Scenario& s, Bytes memory) {
  if (!s.plan.offload.copies() && !s.input.used()) return peak_memory(s) <= memory;
  SimulateOptions options;
  options.critical_path = false;
  return simulate(s, options).fits;
}

}  // namespace

Capacity capacity(const Scenario& s) {
  Capacity room;
  room.memory = s.cluster.type_of_gpu(0).gpu.memory_capacity;
  for (int rank = 1; rank < s.ranks(); ++rank)
    room.memory = std::min(room.memory, s.cluster.type_of_gpu(rank).gpu.memory_capacity);
  ProgressLine progress;
  const auto fits = [&](const Overrides& overrides, double* parameters) {
    progress.show(fmt::format("what fits? {} of {}", overrides.front().first, overrides.front().second));
    try {
      const Scenario other = read_again(s, overrides);
      if (!has_room(other, room.memory)) return false;
      if (parameters) *parameters = other.network.parameters();
      return true;
    } catch (const UserError&) {
      return false;
    }
  };
  std::int64_t unit = 1;  // number of samples that stages of different widths can divide
  for (const StageWidth& width : s.plan.mesh.widths) unit = std::lcm(unit, std::int64_t{width.data});
  room.largest_micro_batch_size = unit * largest_that_fits(s.micro_batch_size / unit, [&](std::int64_t n) {
                                    return fits(with_micro_batch(s, n * unit), nullptr);
                                  });
  const LayerCount layers = layer_count(*s.document.find("model"), Catalog());
  if (layers.keys.empty()) return room;
  room.largest_num_hidden_layers = largest_that_fits(layers.count, [&](std::int64_t n) {
    Overrides overrides;
    for (const std::string& key : layers.keys) overrides.emplace_back("model." + key, fmt::format("{}", n));
    if (s.measured.given())
      overrides.emplace_back("plan.measured_step", "null");  // it was measured for the unchanged network
    return fits(overrides, &room.largest_parameters);
  });
  return room;
}

}  // namespace trainyard
