#include "scenarios/src/studies/capacity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "scenarios/src/planning/device_memory.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/reading/searched_degrees.hpp"
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
  if (s.post_training) return {{"plan.micro_batch_size", fmt::format("{}", samples)}};
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
  // A second micro-batch finds the gradients of the first in memory.
  plan.micro_batches = std::min(plan.micro_batches, plan.stages.front().freed_gradients.empty() ? 1 : 2);
  plan.steps = 1;
  plan.stages.front().tasks = one_stage_tasks(plan.micro_batches);
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
  // Other models of a loop need memory too.
  if (s.post_training) return simulated(simulate(s, few_steps(std::move(laid_out)), options));
  if (!has_independent_ranks(s)) {
    if (const auto result = memory_by_programs(s, laid_out)) return simulated(*result);
    return simulated(simulate(s, few_steps(std::move(laid_out)), options));
  }
  const TrainingPlan& training = laid_out.training;
  const DeviceMemory memory = device_memory(s, training, 0, peak_memory_alone(s, training), smallest_gpu(s));
  return {memory.fits(), memory.risk()};
}

/// Fills the micro-batches of a training whose batch follows them. `fit`: the verdict on a micro-batch in the unchanged
/// batch. `fits`: whether a micro-batch fits in a batch of as many micro-batches as the plan has.
void add_micro_batches(const Scenario& s, const std::function<MemoryFit(std::int64_t)>& fit,
                       const std::function<bool(std::int64_t)>& fits, Capacity& room) {
  std::int64_t unit = 1;  // smallest number of samples that the stages of all widths can divide
  for (const StageWidth& width : s.plan.mesh.widths) unit = std::lcm(unit, std::int64_t{width.data});
  room.largest_micro_batch_size = unit * largest_that_fits(std::max<std::int64_t>(1, s.micro_batch_size / unit),
                                                           [&](std::int64_t n) { return fits(n * unit); });
  const std::int64_t samples = s.global_batch_size / s.plan.mesh.data;  // samples of a replica in a step
  // Stages of a pipeline may keep fewer micro-batches if these are larger, for the batch stays.
  const bool is_pipeline = s.plan.mesh.pipeline > 1;
  for (std::int64_t n = is_pipeline ? samples : std::min(samples, room.largest_micro_batch_size);
       n > 0 && room.safe_micro_batch_size == 0; --n)
    if (samples % n == 0 && fit(n).is_safe()) room.safe_micro_batch_size = n;
}

/// Fills the micro-batches of a loop as it is: its samples come from the engines, so that its batch stays. With packs
/// they are numbers of packs, up to those of a rank. `fit`: the verdict on plan.micro_batch_size.
void add_micro_batches_of_loop(const Scenario& s, const std::function<MemoryFit(std::int64_t)>& fit, Capacity& room) {
  const PostTrainingChoice& loop = *s.post_training;
  const std::int64_t data = s.plan.mesh.data, of_rank = (loop.training_samples + data - 1) / data;
  std::vector<std::int64_t> sizes = divisors(of_rank);
  room.counts_packs = loop.packs.has_value();
  if (loop.packs) {
    const std::int64_t packs = loop.has_dynamic_batches()
                                   ? (of_rank * loop.packs->tokens - 1) / std::llround(loop.padded_tokens) + 1
                                   : loop.packs->of_rank(loop.training_samples, s.plan.mesh.data);
    sizes.resize(static_cast<std::size_t>(packs));
    std::iota(sizes.begin(), sizes.end(), std::int64_t{1});
  }
  const auto all = static_cast<std::int64_t>(sizes.size());
  const auto largest = [&](const auto& is_good) {
    const auto is_good_size = [&](std::int64_t i) {
      return i <= all && is_good(fit(sizes[static_cast<std::size_t>(i - 1)]));
    };
    const std::int64_t i = is_good_size(all) ? all : largest_that_fits(1, is_good_size);
    return i > 0 ? sizes[static_cast<std::size_t>(i - 1)] : 0;
  };
  room.largest_micro_batch_size = largest([](const MemoryFit& found) { return found.fits; });
  if (loop.has_dynamic_batches()) {
    room.safe_micro_batch_size = largest([](const MemoryFit& found) { return found.is_safe(); });
    return;
  }
  const std::vector<std::int64_t> whole = divisors(sizes.back());
  for (auto n = whole.rbegin(); n != whole.rend() && room.safe_micro_batch_size == 0; ++n)
    if (*n <= room.largest_micro_batch_size && fit(*n).is_safe()) room.safe_micro_batch_size = *n;
}

}  // namespace

Capacity capacity(const Scenario& s) {
  Capacity room;
  room.memory = smallest_gpu(s).memory_capacity;
  ProgressLine progress;
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
  const auto fit_micro_batch = [&](std::int64_t n) { return fit(s, with_unchanged_batch(s, n), nullptr); };
  if (s.post_training)
    add_micro_batches_of_loop(s, fit_micro_batch, room);
  else
    add_micro_batches(
        s, fit_micro_batch, [&](std::int64_t n) { return fit(s, with_micro_batch(s, n), nullptr).fits; }, room);
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
