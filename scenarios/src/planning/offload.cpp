#include "scenarios/src/planning/offload.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/software/training_memory.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {
namespace {

void add(StaticMemory& memory, Bytes& sum, MemoryClass memory_class, const char* name, Bytes bytes) {
  if (bytes.value == 0) return;
  sum += bytes;
  memory.parts.push_back({name, memory_class, bytes});
}

/// Throws UserError for gradients that are sums over tensor ranks. They are summed after the last micro-batch, but
/// offload sends them to the host before.
void require_whole_gradients(const Scenario& s, const Network& share) {
  if (s.plan.mesh.tensor == 1) return;
  for (const Layer& layer : share.layers)
    for (const ParameterTensor& tensor : layer.parameters)
      if (tensor.partial)
        fail(s.plan.offload.place,
             fmt::format("plan.data_parallel.offload: not with tensors whose gradients are sums over tensor ranks, as "
                         "{} of layer {} ({}); tensor_parallel: 1{} expected",
                         tensor.name, layer.name, s.network.name,
                         s.plan.sharding.sequence ? " or sequence_parallel: false" : ""));
}

}  // namespace

OffloadPlan offload_plan(const Scenario& s, const TrainingPlan& training) {
  OffloadPlan plan;
  plan.optimizer = s.plan.offload.optimizer;
  plan.parameters = s.plan.offload.parameters;
  if (!plan.is_used()) return plan;
  require_whole_gradients(s, *training.network);
  const Bytes gradient = training.gradient_element;
  const Bytes master = s.optimizer.keeps_master ? element_size(update_precision(s.precision)) : Bytes{};
  plan.states = master + states_size(s.optimizer, s.precision);
  // As on a GPU, except that gradients keep the precision in which they arrive. fp32 parameters are their own master
  // copy.
  plan.update = optimizer_traffic(s.optimizer, s.precision) - element_size(s.precision) + gradient;
  plan.addition = gradient * 3;
  return plan;
}

HeldElements held_on_gpu(const TrainingPlan& plan, const HeldElements& held) {
  if (!plan.offload.is_used()) return held;
  HeldElements rest = held;
  rest.optimizer = 0;
  if (plan.zero >= ZeroStage::gradients) rest.gradients = 0;
  if (plan.offload.parameters != OffloadDevice::none) rest.parameters = 0;
  return rest;
}

void hold_on_host(const TrainingPlan& plan, StagePlan& stage, const HeldElements& held,
                  const std::vector<double>& shares) {
  const OffloadPlan& offload = plan.offload;
  if (!offload.is_used()) return;
  const double elements = held.optimizer;
  const double largest = shares.empty() ? 0 : *std::ranges::max_element(shares);
  StaticMemory& host = stage.host_memory;
  add(host, host.gradients, MemoryClass::gradients, "gradients", plan.gradient_element * elements);
  if (offload.optimizer == OffloadDevice::cpu) {
    add(host, host.optimizer, MemoryClass::optimizer, "optimizer states", offload.states * elements);
  } else {
    add(host, host.buffers, MemoryClass::buffers, "optimizer states in passing",
        offload.states * (largest * offload.buffers));
    stage.drive += offload.states * elements;
  }
  const Bytes parameter = plan.parameter_element;
  switch (offload.parameters) {
    case OffloadDevice::cpu:
      add(host, host.parameters, MemoryClass::parameters, "parameters", parameter * elements);
      break;
    case OffloadDevice::nvme:  // buffers for the layers gathered ahead, one in use, and one in transfer
      add(host, host.buffers, MemoryClass::buffers, "parameters in passing",
          parameter * (largest * (plan.prefetch + 2)));
      stage.drive += parameter * elements;
      break;
    case OffloadDevice::none:  // two buffers: one bucket is updated while the previous one is copied back
      add(host, host.buffers, MemoryClass::buffers, "parameters in passing", parameter * (largest * 2));
      break;
  }
}

ActivationOffload activation_offload(const Scenario& s, const Network& network,
                                     const std::vector<std::vector<int>>& stages) {
  const OffloadChoice& choice = s.plan.offload;
  ActivationOffload offload;
  if (!choice.activations()) return offload;
  offload.ahead = choice.activations_ahead;
  offload.layers.assign(network.layers.size(), 0);
  // The first and the last layer of the network are no blocks: embedding and head.
  const int last = static_cast<int>(network.layers.size()) - 1;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    int blocks = 0;
    for (const int number : stages[stage]) {
      const auto layer = static_cast<std::size_t>(number);
      if (number == 0 || number == last || network.layers[layer].activations().value == 0) continue;
      if (blocks == choice.activation_blocks) break;
      offload.layers[layer] = 1;
      ++blocks;
    }
    if (blocks < choice.activation_blocks && choice.activation_blocks != OffloadChoice::kAllBlocks)
      fail(choice.activations_place,
           fmt::format(
               "plan.activation_offload: {0} blocks a stage, but virtual stage {1} has {2}; expected {2}, or all",
               choice.activation_blocks, stage, blocks));
  }
  if (std::ranges::count(offload.layers, 1) == 0)
    fail(choice.activations_place, fmt::format("plan.activation_offload: {} has no block between its first and its "
                                               "last layer that keeps activations; expected none",
                                               network.name));
  return offload;
}

void hold_activations_on_host(const TrainingPlan& plan, StagePlan& stage) {
  if (!plan.offload.activations.is_used()) return;
  std::vector<Bytes> chunk_bytes;
  for (const std::vector<int>& chunk : stage.chunks) {
    Bytes& bytes = chunk_bytes.emplace_back();
    for (const int layer : chunk)
      if (plan.offload.activations.holds(layer))
        bytes += plan.network->layers[static_cast<std::size_t>(layer)].activations();
  }
  Bytes now;
  for (const PipelineTask& task : stage.tasks) {
    const Bytes bytes = chunk_bytes[static_cast<std::size_t>(task.chunk)];
    if (task.pass == PipelineTask::Pass::forward)
      stage.host_activations = std::max(stage.host_activations, now += bytes);
    else
      now -= bytes;
  }
}

void attach_host_ways(OffloadPlan& plan, int ranks, const ClusterMachine& machine, const Place& where) {
  if (!plan.copies()) return;
  const char* key = plan.is_used() ? "plan.data_parallel.offload" : "plan.activation_offload";
  const auto require_path = [&](Actor from, Actor to) {
    if (!machine.route(from, to, PathClass::automatic).reachable)
      fail(where,
           fmt::format("{}: there is no path from {} to {}", key, machine.actor_name(from), machine.actor_name(to)));
    return GroupFlow::Edge{from, to, 1};
  };
  for (Actor rank = 0; rank < ranks; ++rank) {
    const DeviceId socket = machine.socket_of(rank);
    if (socket < 0) fail(where, fmt::format("{}: {} is connected to no CPU", key, machine.actor_name(rank)));
    const Actor cpu = machine.actor(socket);
    auto& ways = plan.ways.emplace_back();
    for (GroupFlow& flow : ways) flow.by_engines = true;
    const auto edges = [&ways](HostTransfer w) -> std::vector<GroupFlow::Edge>& {
      return ways[static_cast<std::size_t>(w)].edges;
    };
    edges(HostTransfer::to_host) = {require_path(rank, cpu)};
    edges(HostTransfer::in_host) = {{cpu, cpu, 1}};
    edges(HostTransfer::from_host) = {require_path(cpu, rank)};
    if (!plan.drives()) continue;
    const int node = machine.graph().devices()[socket].node;
    for (const DeviceId id : machine.graph().devices_of_kind(DeviceKind::nvme, node)) {
      const Actor drive = machine.actor(id);
      edges(HostTransfer::drive_read).push_back(require_path(drive, cpu));
      edges(HostTransfer::drive_write).push_back(require_path(cpu, drive));
    }
  }
}

}  // namespace trainyard
