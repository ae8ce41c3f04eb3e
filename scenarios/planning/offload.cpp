#include "scenarios/planning/offload.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {

/// Fuller in proportion; where nothing states how much there is, simply more.
bool fuller(double held, double capacity, double than, double than_capacity) {
  if (capacity > 0 && than_capacity > 0) return held * than_capacity > than * capacity;
  return held > than;
}

void add(StaticMemory& memory, Bytes& sum, MemoryClass memory_class, const char* name, Bytes bytes) {
  if (bytes.value == 0) return;
  sum += bytes;
  memory.parts.push_back({name, memory_class, bytes});
}

/// Gradients that each tensor rank has a part of are summed after the last micro-batch: by then they have left.
void require_whole_gradients(const Scenario& s) {
  if (s.parallel.mesh.tensor == 1) return;
  for (const Layer& layer : s.share.layers)
    for (const ParameterTensor& tensor : layer.parameters)
      if (tensor.partial)
        fail(s.parallel.offload.place,
             fmt::format("plan.data_parallel.offload: not with tensors whose gradients are sums over tensor ranks, as "
                         "{} of layer {} ({}); tensor_parallel: 1{} expected",
                         tensor.name, layer.name, s.network.name,
                         s.parallel.sharding.sequence ? " or sequence_parallel: false" : ""));
}

/// What all ranks of a node hold.
struct OnNode {
  StaticMemory host;
  Bytes drive;
};

std::vector<OnNode> sum_by_node(const Scenario& s, const TrainingPlan& plan) {
  std::vector<OnNode> nodes(static_cast<std::size_t>(s.cluster.nodes));
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    OnNode& node = nodes[static_cast<std::size_t>(s.cluster.node_of_gpu(rank))];
    const StagePlan& stage = plan.stage_of(rank);
    node.host.parameters += stage.host_memory.parameters;
    node.host.gradients += stage.host_memory.gradients;
    node.host.optimizer += stage.host_memory.optimizer;
    node.host.buffers += stage.host_memory.buffers;
    node.drive += stage.drive;
  }
  return nodes;
}

}  // namespace

OffloadPlan offload_plan(const Scenario& s) {
  OffloadPlan plan;
  plan.optimizer = s.parallel.offload.optimizer;
  plan.parameters = s.parallel.offload.parameters;
  if (!plan.used()) return plan;
  require_whole_gradients(s);
  const Bytes gradient = s.plan.gradient_element, master = element_size(update_precision(s.precision));
  plan.states = master * (1 + s.optimizer.states);
  // As on a GPU, but for gradients in the precision in which they come; fp32 parameters are their own copy.
  plan.update = optimizer_traffic(s.optimizer, s.precision) - element_size(s.precision) + gradient;
  plan.addition = gradient * 3;
  return plan;
}

HeldElements held_on_gpu(const TrainingPlan& plan, const HeldElements& held) {
  if (!plan.offload.used()) return held;
  HeldElements rest = held;
  rest.optimizer = 0;
  if (plan.zero >= ZeroStage::gradients) rest.gradients = 0;
  if (plan.offload.parameters != OffloadDevice::none) rest.parameters = 0;
  return rest;
}

void hold_on_host(const TrainingPlan& plan, StagePlan& stage, const HeldElements& held,
                  const std::vector<double>& shares) {
  const OffloadPlan& offload = plan.offload;
  if (!offload.used()) return;
  const double own = held.optimizer;
  const double largest = shares.empty() ? 0 : *std::max_element(shares.begin(), shares.end());
  StaticMemory& host = stage.host_memory;
  add(host, host.gradients, MemoryClass::gradients, "gradients", plan.gradient_element * own);
  if (offload.optimizer == OffloadDevice::cpu) {
    add(host, host.optimizer, MemoryClass::optimizer, "optimizer states", offload.states * own);
  } else {
    add(host, host.buffers, MemoryClass::buffers, "optimizer states in passing",
        offload.states * (largest * offload.buffers));
    stage.drive += offload.states * own;
  }
  const Bytes parameter = plan.parameter_element;
  switch (offload.parameters) {
    case OffloadDevice::cpu:
      add(host, host.parameters, MemoryClass::parameters, "parameters", parameter * own);
      break;
    case OffloadDevice::nvme:  // those gathered ahead, that one in use, and one on its way
      add(host, host.buffers, MemoryClass::buffers, "parameters in passing",
          parameter * (largest * (plan.prefetch + 2)));
      stage.drive += parameter * own;
      break;
    case OffloadDevice::none:  // one bucket is updated while the one before goes back
      add(host, host.buffers, MemoryClass::buffers, "parameters in passing", parameter * (largest * 2));
      break;
  }
}

void attach_host_ways(OffloadPlan& plan, int ranks, const ClusterMachine& machine, const Place& where) {
  if (!plan.used()) return;
  const auto need_way = [&](Actor from, Actor to) {
    if (!machine.route(from, to, PathClass::automatic).reachable)
      fail(where, fmt::format("plan.data_parallel.offload: no way leads from {} to {}", machine.actor_name(from),
                              machine.actor_name(to)));
    return GroupFlow::Edge{from, to, 1};
  };
  for (Actor rank = 0; rank < ranks; ++rank) {
    const DeviceId socket = machine.socket_of(rank);
    if (socket < 0)
      fail(where, fmt::format("plan.data_parallel.offload: {} hangs at no CPU", machine.actor_name(rank)));
    const Actor cpu = machine.actor(socket);
    auto& ways = plan.ways.emplace_back();
    for (GroupFlow& way : ways) way.by_engines = true;
    const auto way = [&ways](HostWay w) -> std::vector<GroupFlow::Edge>& {
      return ways[static_cast<std::size_t>(w)].edges;
    };
    way(HostWay::to_host) = {need_way(rank, cpu)};
    way(HostWay::in_host) = {{cpu, cpu, 1}};
    way(HostWay::from_host) = {need_way(cpu, rank)};
    if (!plan.drives()) continue;
    const int node = machine.graph().devices()[static_cast<std::size_t>(socket)].node;
    for (const DeviceId id : machine.graph().all(DeviceKind::nvme, node)) {
      const Actor drive = machine.actor(id);
      way(HostWay::drive_read).push_back(need_way(drive, cpu));
      way(HostWay::drive_write).push_back(need_way(cpu, drive));
    }
  }
}

void book_host_memory(const Scenario& s, const TrainingPlan& plan, Result& r) {
  if (!plan.offload.used()) return;
  const std::vector<OnNode> nodes = sum_by_node(s, plan);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const NodeType& type = s.cluster.type_of(static_cast<int>(n));
    const StaticMemory& host = nodes[n].host;
    const double capacity = type.host_memory.value, drives = (type.nvme.capacity * type.nvme.count).value;
    if (n == 0 || fuller(host.total().value, capacity, r.host_memory.peak, r.host_memory.capacity))
      r.host_memory = {
          capacity,           host.total().value, host.parameters.value, host.gradients.value, host.optimizer.value,
          host.buffers.value, static_cast<int>(n)};
    if (n == 0 || fuller(nodes[n].drive.value, drives, r.drive.peak, r.drive.capacity))
      r.drive = {drives, nodes[n].drive.value, static_cast<int>(n)};
  }
  const auto holds = [](double capacity, double peak) { return capacity == 0 || peak <= capacity; };
  r.fits = r.fits && holds(r.host_memory.capacity, r.host_memory.peak) && holds(r.drive.capacity, r.drive.peak);
}

std::vector<std::string> resource_classes_of(const Scenario& s) {
  std::vector<std::string> classes = resource_classes(s.cluster);
  if (!s.parallel.offload.used()) return classes;
  const auto add_class = [&classes](const char* name) {
    if (std::find(classes.begin(), classes.end(), name) == classes.end())
      classes.insert(std::find(classes.begin(), classes.end(), "framework"), name);
  };
  add_class("PCIe");
  if (s.cluster.node.cpu.memory_bandwidth.value > 0) add_class("host memory");
  if (s.parallel.offload.drives()) add_class("NVMe");
  return classes;
}

}  // namespace trainyard
