#include "scenarios/src/studies/capacity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "scenarios/src/planning/device_memory.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/program_memory.hpp"
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

Overrides with_unchanged_batch(const Scenario& s, std::int64_t samples) {
  return {{"plan.micro_batch_size", fmt::format("{}", samples)},
          {"plan.global_batch_size", fmt::format("{}", s.global_batch_size)}};
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

namespace {

/// Returns true if the memory of a rank does not depend on the timing of other ranks.
bool has_independent_ranks(const Scenario& s) { return !s.plan.splits_model() && s.plan.mechanism->all_reduces(); }

/// Returns the training half of a loop as a scenario of its own, whose batches are numbers of its sequences. Without a
/// loop, returns the scenario.
Scenario training_half(const Scenario& s) {
  if (!s.post_training) return s;
  Node document = s.post_training->training_document;
  std::erase_if(document.fields, [](const auto& field) { return same_name("measured", field.first); });
  Node& plan_of_half = *document.find("plan");
  const auto set = [&](const char* key, std::int64_t samples) {
    set_field(plan_of_half, key, Node::scalar_node(fmt::format("{}", samples), s.post_training->place));
  };
  set("micro_batch_size", s.micro_batch_size);
  set("global_batch_size", s.global_batch_size);
  return read_scenario(document, s.name);
}

/// Returns the plan with as few steps as show its memory.
Plan few_steps(Plan plan) {
  if (!plan.search) return plan;
  return on_steps(plan, plan.warm_steps, std::min(plan.search->fewest, plan.training.steps));
}

/// Returns the GPU with the least memory.
const Gpu& smallest_gpu(const Scenario& s) {
  const Gpu* least = &s.cluster.type_of_gpu(0).gpu;
  for (int rank = 1; rank < s.ranks(); ++rank)
    if (const Gpu& gpu = s.cluster.type_of_gpu(rank).gpu; gpu.usable_memory() < least->usable_memory()) least = &gpu;
  return *least;
}

}  // namespace

Bytes peak_memory_alone(const Scenario& s, TrainingPlan plan) {
  plan.mesh = {};
  plan.micro_batches = plan.steps = 1;
  plan.stages.front().tasks = one_stage_tasks(1);
  plan.lanes = {};
  plan.updates = {};
  plan.bucket_copy = false;  // the memory of buckets is part of the stage's
  ClusterSpec one_node = s.cluster;
  one_node.nodes = 1;
  one_node.others.clear();
  one_node.taken_out.clear();
  one_node.fabric = nullptr;
  ClusterMachine machine(one_node, s.software);
  Names names;
  const TrainingPrograms programs(plan, names);
  MemoryUse memory;
  run_programs(machine, programs.programs(), {{&memory}});
  return memory.peak(0);
}

namespace {

/// A verdict on memory. `fits`: it is likelier to suffice than not; `risk`: probability that a GPU runs out of it.
struct MemoryFit {
  bool fits = false;
  double risk = 1;
  bool is_safe() const { return fits && is_safe_risk(risk); }
};

/// Returns the fit into the GPUs, and with offload or an input pipeline into hosts and drives too.
MemoryFit memory_fit(const Scenario& s) {
  const auto simulated = [](const Result& r) { return MemoryFit{r.fits, r.risk}; };
  const SimulateOptions options{.critical_path = false};
  if (s.plan.offload.copies() || s.input.is_used()) return simulated(simulate(s, options));
  Plan laid_out = plan(s);
  if (!has_independent_ranks(s)) {
    if (const auto result = memory_by_programs(s, laid_out)) return simulated(*result);
    return simulated(simulate(s, few_steps(std::move(laid_out)), options));
  }
  const TrainingPlan& training = laid_out.training;
  const DeviceMemory memory = device_memory(s, training, 0, peak_memory_alone(s, training), smallest_gpu(s));
  return {memory.fits(), memory.risk()};
}

}  // namespace

Capacity capacity(const Scenario& s) {
  Capacity room;
  room.memory = smallest_gpu(s).memory_capacity;
  ProgressLine progress;
  const Scenario half = training_half(s);
  const auto fit = [&](const Scenario& base, const Overrides& overrides, double* parameters) {
    progress.show(
        fmt::format("largest size that fits: trying {} of {}", overrides.front().first, overrides.front().second));
    try {
      const Scenario other = read_again(base, overrides);
      const MemoryFit found = memory_fit(other);
      if (found.fits && parameters) *parameters = other.network.parameters();
      return found;
    } catch (const UserError&) {
      return MemoryFit{};
    }
  };
  std::int64_t unit = 1;  // smallest number of samples that the stages of all widths can divide
  for (const StageWidth& width : s.plan.mesh.widths) unit = std::lcm(unit, std::int64_t{width.data});
  room.largest_micro_batch_size =
      unit * largest_that_fits(std::max<std::int64_t>(1, s.micro_batch_size / unit),
                               [&](std::int64_t n) { return fit(half, with_micro_batch(s, n * unit), nullptr).fits; });
  const std::int64_t samples = s.global_batch_size / s.plan.mesh.data;  // samples of a replica in a step
  // Stages of a pipeline may keep fewer micro-batches if these are larger, for the batch stays.
  const bool is_pipeline = s.plan.mesh.pipeline > 1;
  const std::int64_t of_pack = s.post_training && s.post_training->packs ? s.post_training->packs->sequences : 1;
  for (std::int64_t n = is_pipeline ? samples : std::min(samples, room.largest_micro_batch_size);
       n > 0 && room.safe_micro_batch_size == 0; --n)
    if (samples % n == 0 && n % of_pack == 0 && fit(half, with_unchanged_batch(s, n), nullptr).is_safe())
      room.safe_micro_batch_size = n;
  if (s.post_training && s.post_training->packs) {  // plan.micro_batch_size of a loop counts packs
    const SamplePacks& packs = *s.post_training->packs;
    room.counts_packs = true;
    const auto as_packs = [&](std::int64_t sequences) {
      return packs.most_tokens > 0
                 ? sequences * packs.tokens / static_cast<std::int64_t>(s.post_training->padded_tokens)
                 : sequences / packs.sequences;
    };
    room.largest_micro_batch_size = as_packs(room.largest_micro_batch_size);
    room.safe_micro_batch_size = as_packs(room.safe_micro_batch_size);
  }
  const LayerCount layers = layer_count(*s.document.find("model"), Catalog());
  if (layers.keys.empty()) return room;
  room.largest_num_hidden_layers = largest_that_fits(layers.count, [&](std::int64_t n) {
    Overrides overrides;
    for (const std::string& key : layers.keys) overrides.emplace_back("model." + key, fmt::format("{}", n));
    if (s.measured.is_given())
      overrides.emplace_back("plan.measured_step", "null");  // that step was measured with the unchanged network
    return fit(s, overrides, &room.largest_parameters).fits;
  });
  return room;
}

}  // namespace trainyard
