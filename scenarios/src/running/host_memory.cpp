#include <fmt/format.h>

#include "scenarios/src/running/step_result.hpp"
#include "scenarios/src/running/step_run.hpp"

namespace trainyard {
namespace {

/// Whether a node is fuller than another in proportion to its capacity, or absolutely if a capacity is not stated.
bool is_fuller(double held, double capacity, double other_held, double other_capacity) {
  if (capacity > 0 && other_capacity > 0) return held * other_capacity > other_held * capacity;
  return held > other_held;
}

/// Memory of a node: that of all its ranks and of its input pipeline.
struct NodeMemory {
  StaticMemory host;
  Bytes activations, drive, input;
  Bytes on_host() const { return host.total() + activations + input; }
};

std::vector<NodeMemory> sum_by_node(const StepRun& run) {
  const Scenario& s = run.scenario;
  const TrainingPlan& plan = run.plan;
  std::vector<NodeMemory> nodes(static_cast<std::size_t>(s.cluster.nodes));
  if (run.machine.input) {
    const std::vector<Bytes> input = input_on_hosts(run);
    for (std::size_t n = 0; n < nodes.size(); ++n) nodes[n].input = input[n];
  }
  if (!plan.offload.copies()) return nodes;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    NodeMemory& node = nodes[s.cluster.node_of_gpu(rank)];
    const StagePlan& stage = plan.stage_of(rank);
    node.host.parameters += stage.host_memory.parameters;
    node.host.gradients += stage.host_memory.gradients;
    node.host.optimizer += stage.host_memory.optimizer;
    node.host.buffers += stage.host_memory.buffers;
    node.activations += stage.host_activations;
    node.drive += stage.drive;
  }
  return nodes;
}

}  // namespace

void book_host_memory(const StepRun& run, Result& r) {
  if (!run.plan.offload.copies() && !run.machine.input) return;
  const std::vector<NodeMemory> nodes = sum_by_node(run);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const NodeType& type = run.scenario.cluster.type_of(static_cast<int>(n));
    const StaticMemory& host = nodes[n].host;
    const double capacity = type.host_memory.value, drives = (type.nvme.capacity * type.nvme.count).value;
    const double held = nodes[n].on_host().value;
    if (n == 0 || is_fuller(held, capacity, r.host_memory.peak, r.host_memory.capacity))
      r.host_memory = {capacity,
                       held,
                       host.parameters.value,
                       host.gradients.value,
                       host.optimizer.value,
                       host.buffers.value,
                       nodes[n].activations.value,
                       nodes[n].input.value,
                       static_cast<int>(n)};
    if (n == 0 || is_fuller(nodes[n].drive.value, drives, r.drive.peak, r.drive.capacity))
      r.drive = {drives, nodes[n].drive.value, static_cast<int>(n)};
  }
  const auto holds = [](double capacity, double peak) { return capacity == 0 || peak <= capacity; };
  r.fits = r.fits && holds(r.host_memory.capacity, r.host_memory.peak) && holds(r.drive.capacity, r.drive.peak);
}

}  // namespace trainyard
