#include "scenarios/src/search/plan_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "scenarios/src/planning/device_memory.hpp"
#include "sim/error.hpp"
#include "sim/units.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {
namespace {

/// Largest ratio of reserved to allocated memory of PyTorch's caching allocator in SimuMax's runs on B200 (1.028 to
/// 1.065, catalog entry megatron-core); unverified for other allocators.
constexpr double kMostReserved = 1.065;

/// The change of memory after a pass through a model chunk, and the highest memory above the start during the pass,
/// bytes.
struct ChunkMemory {
  double change = 0, high = 0;
};

/// Returns the bytes of a layer's whole parameters (gathered) or gradients (not yet scattered) at ZeRO stage 3; 0 at
/// other stages.
double whole_layer(const TrainingPlan& plan, const Layer& layer, bool gradients) {
  if (plan.zero != ZeroStage::parameters) return 0;
  double elements = 0;
  for (const ParameterTensor& tensor : layer.parameters)
    elements += gradients ? (tensor.frozen ? 0 : tensor.elements) : gathered_elements(tensor, plan.network->precision);
  const auto number = static_cast<int>(&layer - plan.network->layers.data());
  if (!gradients)
    for (const StagePlan& stage : plan.stages)
      for (const GradientBucket& bucket : stage.buckets)
        if (bucket.layer == number) elements += bucket.widening;
  return elements * (gradients ? plan.gradient_element : plan.parameter_element).value;
}

/// `first`: the pass makes the chunk's first gradients of the step.
ChunkMemory memory_of_chunk(const TrainingPlan& plan, const StagePlan& stage, std::vector<int> layers, Pass pass,
                            bool first) {
  if (pass != Pass::forward) std::ranges::reverse(layers);
  const bool makes_gradients = pass == Pass::backward || pass == Pass::backward_weights;
  ChunkMemory chunk;
  for (const int number : layers) {
    const Layer& layer = plan.network->layers[static_cast<std::size_t>(number)];
    if (first && !stage.freed_gradients.empty()) {
      chunk.change += stage.freed_gradients[static_cast<std::size_t>(number)].value;
      chunk.high = std::max(chunk.high, chunk.change);
    }
    if (pass == Pass::forward ? layer.forward.empty() : layer.backward.empty())
      continue;  // no operation to which its memory could belong
    auto [change, transient] = memory_of_pass(layer, pass);
    if (plan.offload.activations.holds(number)) {  // its activations are on the GPU only during the passes
      transient += layer.activations();
      change = Bytes{};
    }
    const double gathered = pass == Pass::backward_weights ? 0 : whole_layer(plan, layer, false);
    chunk.high = std::max(chunk.high, chunk.change + std::max(0.0, change.value) + transient.value + gathered);
    chunk.change += change.value;
    if (makes_gradients) chunk.high = std::max(chunk.high, chunk.change + whole_layer(plan, layer, true));
  }
  return chunk;
}

double peak_of(const TrainingPlan& plan, const StagePlan& stage) {
  std::vector<std::array<ChunkMemory, kPasses>> chunks;
  for (const std::vector<int>& layers : stage.chunks)
    for (auto& passes = chunks.emplace_back();
         const Pass pass : {Pass::forward, Pass::backward, Pass::backward_input, Pass::backward_weights})
      passes[static_cast<std::size_t>(pass)] = memory_of_chunk(plan, stage, layers, pass, false);
  double allocation = 0;
  for (const MemoryPart& part : stage.memory.parts) allocation += part.bytes.value;
  double peak = allocation;
  for (const Bytes layer : stage.freed_gradients) allocation -= layer.value;
  std::vector<char> have_gradients(stage.chunks.size(), 0);  // indexed by chunk
  const auto run = [&](const PipelineTask& task) {
    const auto number = static_cast<std::size_t>(task.chunk);
    ChunkMemory chunk = chunks[number][static_cast<std::size_t>(task.pass)];
    const bool makes_gradients = task.pass == Pass::backward || task.pass == Pass::backward_weights;
    if (makes_gradients && !std::exchange(have_gradients[number], 1))
      chunk = memory_of_chunk(plan, stage, stage.chunks[number], task.pass, true);
    peak = std::max(peak, allocation + chunk.high);
    allocation += chunk.change;
  };
  for (auto task = stage.tasks.begin(); task != stage.tasks.end(); ++task) {
    // Two alternating tasks use at least as much memory as the freeing task followed by the allocating one.
    if (task->beside_next) run(task[1]);
    run(*task);
    if (task->beside_next) ++task;
  }
  return peak;
}

}  // namespace

double default_headroom(const Scenario& s) {
  double capacity = s.cluster.node.gpu.memory_capacity.value;
  for (const NodeType* type : s.cluster.types()) capacity = std::min(capacity, type->gpu.memory_capacity.value);
  const double other_memory = std::max(0.0, (kCudaContext - s.software.workspace).value);
  const double reserved = std::max(kMostReserved, s.software.reserved_memory);
  const double share = 1 - std::max(0.0, 1 - other_memory / capacity) / reserved;
  return std::ceil(share * 1000) / 1000;  // rounded as it is shown
}

bool leaves_headroom(Bytes peak, Bytes capacity, double headroom) {
  return capacity.value <= 0 || peak / capacity <= 1 - headroom;
}

double parse_headroom(const std::string& text) {
  std::string_view number = trim(text);
  const bool is_percent = number.ends_with('%');
  if (is_percent) number = trim(number.substr(0, number.size() - 1));
  double share = -1;
  try {
    share = parse_number(number) / (is_percent ? 100 : 1);
  } catch (const UserError&) {
  }
  if (share >= 0 && share < 1) return share;
  throw UserError(
      fmt::format("--headroom {}: a share of a device's memory from 0 to below 100 % expected, such as 8 %{}", text,
                  !is_percent && share >= 1 && share < 100 ? fmt::format("; {} % ?", number) : ""));
}

std::string usable_memory(double capacity, double headroom) {
  const std::string total = fmt::format("{:.1f} GiB", capacity / (1U << 30));
  return headroom > 0 ? fmt::format("{:.1f} of {}", capacity * (1 - headroom) / (1U << 30), total) : total;
}

PlanMemory memory_of(const Scenario& s, const TrainingPlan& plan) {
  PlanMemory memory;
  const Gpu* largest = &s.cluster.node.gpu;
  for (const NodeType* type : s.cluster.types())
    if (type->gpu.usable_memory() > largest->usable_memory()) largest = &type->gpu;
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const Bytes peak{peak_of(plan, plan.stages[stage])};
    memory.peak = std::max(memory.peak, peak);
    memory.fits = memory.fits && device_memory(s, plan, stage, peak, *largest).fits();
  }
  const bool opens_buckets = plan.zero == ZeroStage::gradients && (!plan.bucket_copy || plan.host_buckets);
  memory.exact = plan.zero != ZeroStage::parameters && !opens_buckets && !s.plan.offload.copies() &&
                 !s.plan.compression && !plan.pipeline.pairs_passes;
  return memory;
}

}  // namespace trainyard
