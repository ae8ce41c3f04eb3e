#include "scenarios/search/plan_memory.hpp"

#include <algorithm>
#include <array>

#include "strategies/step/pass_table.hpp"

namespace trainyard {
namespace {

/// What a pass through a model chunk leaves behind, and the most above what was there that it holds on its way.
struct ChunkMemory {
  double change = 0, high = 0;
};

/// Bytes of a layer's elements, gathered or not yet scattered, at ZeRO stage 3.
double whole_layer(const TrainingPlan& plan, const Layer& layer, bool gradients) {
  if (plan.zero != ZeroStage::parameters) return 0;
  double elements = 0;
  for (const ParameterTensor& tensor : layer.parameters)
    elements += gradients ? (tensor.frozen ? 0 : tensor.elements) : gathered_elements(tensor, plan.network->precision);
  return elements * (gradients ? plan.gradient_element : plan.parameter_element).value;
}

ChunkMemory memory_of_chunk(const TrainingPlan& plan, std::vector<int> layers, Pass pass) {
  if (pass != Pass::forward) std::reverse(layers.begin(), layers.end());
  const bool makes_gradients = pass == Pass::backward || pass == Pass::backward_weights;
  ChunkMemory chunk;
  for (const int number : layers) {
    const Layer& layer = plan.network->layers[static_cast<std::size_t>(number)];
    if (pass == Pass::forward ? layer.forward.empty() : layer.backward.empty())
      continue;  // nothing that it is booked on
    const auto [change, transient] = memory_of_pass(layer, pass);
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
    for (auto& of = chunks.emplace_back();
         const Pass pass : {Pass::forward, Pass::backward, Pass::backward_input, Pass::backward_weights})
      of[static_cast<std::size_t>(pass)] = memory_of_chunk(plan, layers, pass);
  double now = 0;
  for (const MemoryPart& part : stage.memory.parts) now += part.bytes.value;
  double peak = now;
  const auto run = [&](const PipelineTask& task) {
    const ChunkMemory& chunk = chunks[static_cast<std::size_t>(task.chunk)][static_cast<std::size_t>(task.pass)];
    peak = std::max(peak, now + chunk.high);
    now += chunk.change;
  };
  for (auto task = stage.tasks.begin(); task != stage.tasks.end(); ++task) {
    // Two that alternate take at least as much as the one that gives memory back and then the one that takes it.
    if (task->beside_next) run(task[1]);
    run(*task);
    if (task->beside_next) ++task;
  }
  return peak;
}

}  // namespace

PlanMemory memory_of(const Scenario& s, const TrainingPlan& plan) {
  PlanMemory memory;
  for (const StagePlan& stage : plan.stages) memory.peak = std::max(memory.peak, Bytes{peak_of(plan, stage)});
  memory.exact = plan.zero != ZeroStage::parameters && !s.plan.offload.used() && !s.plan.compression &&
                 !plan.pipeline.pairs_passes;
  return memory;
}

}  // namespace trainyard
