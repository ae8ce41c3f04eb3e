#include "scenarios/src/planning/size.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/hardware/adapter_rate.hpp"
#include "models/software/training_memory.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {
namespace {

// Longest time that is simulated. At this time the clock (a double) resolves 2 ns.
constexpr Seconds kLongest{1e7};

std::string count_of_steps(int steps) { return steps == 1 ? "a step" : fmt::format("{} steps", steps); }

/// Counts the operations of one pass of a layer: its kernels, two for each exchange, and from the second micro-batch on
/// those that accumulate gradients.
double operations_of_pass(const Layer& layer, const PipelineTask& task, bool fused) {
  const bool forward = task.pass == PipelineTask::Pass::forward;
  const double exchanges =
      2 * static_cast<double>((forward ? layer.forward_exchanges : layer.backward_exchanges).size());
  if (fused) return 2 + exchanges;
  if (forward) return exchanges + static_cast<double>(layer.forward.size());
  double kernels = static_cast<double>(layer.backward.size());
  for (const BackwardKernel& kernel : layer.backward)
    kernels += task.micro_batch > 0 && !kernel.gradients_ready.empty() ? 1 : 0;
  return exchanges + kernels;
}

double operations_of_passes(const TrainingPlan& plan, bool fused) {
  double operations = 0;
  for (int number = 0; number < plan.mesh.pipeline; ++number) {
    const StagePlan& stage = plan.stages[number];
    for (const PipelineTask& task : stage.tasks)
      for (const int layer : stage.chunks[task.chunk])
        operations += operations_of_pass(plan.network->layers[layer], task, fused && plan.fuses_kernels) *
                      plan.mesh.stage_ranks(number);
  }
  return operations;
}

/// Returns an upper bound for the time of a step on slow hardware: all kernels, and all gradients over the slowest wire
/// to one master.
Seconds longest_step(const Scenario& s, const TrainingPlan& plan, const NodeType& node) {
  Seconds kernels;
  for (const Layer& layer : s.network.layers) {
    for (const KernelCall& call : layer.forward) kernels += kernel_time(node.gpu, call.work);
    for (const BackwardKernel& call : layer.backward) kernels += kernel_time(node.gpu, call.work);
  }
  Work optimizer = optimizer_work(s.network.parameters(), s.precision, s.optimizer, s.software);
  std::vector<const Layer*> layers;
  for (const Layer& layer : s.network.layers) layers.push_back(&layer);
  HeldElements all = held_elements(layers, {}, {});
  add_matrix_updates(optimizer, all, layers, {}, {}, s.optimizer, s.precision);
  Seconds time = (kernels * plan.micro_batches + kernel_time(node.gpu, optimizer)) / node.gpu_speed;
  if (s.measured.is_given()) time = s.measured.step_time(s.micro_batch_size) * plan.micro_batches;
  if (plan.ranks() == 1 && !plan.offload.copies()) return time;
  BytesPerSecond slowest{HUGE_VAL};
  const auto slower = [&slowest](BytesPerSecond rate) {
    if (rate.value > 0) slowest = std::min(slowest, rate);
  };
  slower(node.pcie_rate);
  slower(node.gpu.nvlink);
  slower(node.cpu.copy_rate / std::max(1, node.network.copies));
  slower(node.cpu.memory_bandwidth);
  for (const GraphWire& wire : node.wires) slower(wire.rate);
  if (s.cluster.nodes > 1) slower(delivered_rate(node, node.hca_rate));
  if (s.cluster.fabric) slower(s.cluster.fabric->slowest_stated_link());
  if (plan.offload.drives()) {
    slower(node.nvme.read);
    slower(node.nvme.write);
  }
  // Offloaded states move to the drives and back; gradients and parameters move with each micro-batch.
  const OffloadPlan& offload = plan.offload;
  const Bytes moved = offload.is_used()
                          ? offload.update + offload.states * 2 +
                                (plan.gradient_element * 4 + plan.parameter_element * 2) * plan.micro_batches
                          : Bytes{};
  Bytes activations;
  for (std::size_t layer = 0; layer < s.network.layers.size() && offload.activations.is_used(); ++layer)
    activations += s.network.layers[layer].activations() * 2 * plan.micro_batches * plan.ranks();
  return time + activations / slowest +
         s.network.parameters() * (plan.gradient_element * 2 * s.plan.replicas() + moved * plan.ranks()) / slowest;
}

}  // namespace

StepOperations operations_of_step(const Scenario& s, const TrainingPlan& plan) {
  const double mechanism = s.plan.mechanism->operations(plan);
  return {operations_of_passes(plan, false) + mechanism, operations_of_passes(plan, true) + mechanism};
}

double estimated_operations(const Plan& plan, bool fused) {
  return (plan.training.steps + plan.warm_steps) * (fused ? plan.operations.fused : plan.operations.all);
}

void require_size(const Scenario& s, const Plan& plan, double part, const std::string& why_unfolded) {
  const std::string because = why_unfolded.empty() ? "" : fmt::format("; ranks are not folded: {}", why_unfolded);
  const double operations = part * estimated_operations(plan, true);
  if (operations > kMostOperations)
    fail(s.cluster.place, fmt::format("{} of about {:.3g} operations; at most {:.3g} are simulated (fewer ranks, steps "
                                      "or micro-batches, or larger buckets){}",
                                      count_of_steps(plan.training.steps), operations, kMostOperations, because));
}

void refuse_classes(const Scenario& s, const Plan& plan, const std::string& why) {
  fail(s.cluster.place, fmt::format("{} of more than {:.3g} operations, which is the most that is simulated (fewer "
                                    "ranks, steps or micro-batches, or larger buckets); {}",
                                    count_of_steps(plan.training.steps), kMostOperations, why));
}

double steps_of_the_clock(const Scenario& s, const TrainingPlan& plan) {
  Seconds longest;
  for (const NodeType* type : s.cluster.types()) longest = std::max(longest, longest_step(s, plan, *type));
  return kLongest / longest;
}

void require_simulable(const Scenario& s, const Plan& plan) {
  if (s.prescribed_step.exists())
    throw UserError(
        "plan.step_time: the time of the step is given, and it is not simulated; leave the key out to simulate it");
  const int steps = plan.training.steps;
  if (const double most = steps_of_the_clock(s, plan.training); !(steps <= most))
    fail(s.cluster.place, fmt::format("{} of up to {:.3g} s; at most {:.3g} s are simulated", count_of_steps(steps),
                                      kLongest.value * steps / most, kLongest.value));
}

}  // namespace trainyard
