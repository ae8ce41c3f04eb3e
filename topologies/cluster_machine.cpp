#include "topologies/cluster_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {
constexpr KindSet kMessages = bit(Kind::send) | bit(Kind::recv);
constexpr KindSet kWork = bit(Kind::compute) | bit(Kind::local);
}  // namespace

std::vector<std::string> resource_classes(const ClusterSpec& spec) {
  std::vector<std::string> classes{"compute", "memory"};
  if (spec.gpus() > 1) {
    if (spec.node.interconnect == "nvswitch") classes.emplace_back("NVLink");
    classes.emplace_back("PCIe");
    if (spec.nodes > 1) classes.emplace_back("HCA");
    classes.emplace_back("latency");
  }
  classes.emplace_back("framework");
  return classes;
}

std::string describe_class(const std::string& c) {
  if (c == "compute") return "GPU FLOP/s";
  if (c == "memory") return "GPU memory bandwidth";
  if (c == "latency") return "network latency (halved)";
  if (c == "framework") return "software overheads (halved)";
  return c + " rate";
}

ClusterSpec upgraded(ClusterSpec spec, const Upgrade& upgrade) {
  const auto factor = [&upgrade](const char* c) {
    const auto at = upgrade.find(c);
    return at == upgrade.end() ? 1.0 : at->second;
  };
  for (FlopsPerSecond& peak : spec.node.gpu.peak) peak = peak * factor("compute");
  spec.node.gpu.memory_bandwidth = spec.node.gpu.memory_bandwidth * factor("memory");
  spec.node.gpu.nvlink = spec.node.gpu.nvlink * factor("NVLink");
  spec.node.pcie_rate = spec.node.pcie_rate * factor("PCIe");
  spec.node.hca_rate = spec.node.hca_rate * factor("HCA");
  const auto faster = [&](Picoseconds t) { return to_picoseconds(t.seconds() / factor("latency")); };
  spec.node.nvlink_latency = faster(spec.node.nvlink_latency);
  spec.node.pcie_latency = faster(spec.node.pcie_latency);
  spec.node.hca_latency = faster(spec.node.hca_latency);
  spec.switch_latency = faster(spec.switch_latency);
  return spec;
}

SoftwareStack upgraded(SoftwareStack stack, const Upgrade& upgrade) {
  const auto at = upgrade.find("framework");
  const double factor = at == upgrade.end() ? 1.0 : at->second;
  stack.kernel_dispatch = stack.kernel_dispatch / factor;
  stack.collective_launch = stack.collective_launch / factor;
  stack.network_step = stack.network_step / factor;
  stack.step_overhead = stack.step_overhead / factor;
  return stack;
}

ClusterMachine::ClusterMachine(const ClusterSpec& spec, const SoftwareStack& stack)
    : graph_(build_cluster(spec)), gpu_(spec.node.gpu), stack_(stack), gpus_(graph_.all(DeviceKind::gpu)) {
  for (const DeviceId gpu : gpus_) {
    std::vector<LinkId> ports = graph_.links_from(gpu);
    const std::vector<LinkId> in = graph_.links_to(gpu);
    ports.insert(ports.end(), in.begin(), in.end());
    ports_.push_back(std::move(ports));
  }
}

Cost ClusterMachine::price(const Work& work, Actor) const {
  if (work.kernel == kStepOverhead) return {stack_.step_overhead};
  return {std::max(kernel_time(gpu_, work), stack_.kernel_dispatch)};
}

Route ClusterMachine::route(Actor from, Actor to, PathClass path) const {
  const DeviceId source = gpus_.at(static_cast<std::size_t>(from)), target = gpus_.at(static_cast<std::size_t>(to));
  Route route = graph_.route(source, target, path);
  const auto node = [this](DeviceId device) { return graph_.devices()[static_cast<std::size_t>(device)].node; };
  if (node(source) != node(target)) route.latency += to_picoseconds(stack_.network_step);
  return route;
}

double ClusterMachine::speed(Actor, Kind kind, KindSet active) const {
  if (kind == Kind::send || kind == Kind::recv) return (active & kWork) ? gpu_.communication_while_computing : 1;
  return (active & kMessages) ? gpu_.compute_while_communicating : 1;
}

std::string ClusterMachine::actor_name(Actor actor) const {
  const Device& device = graph_.devices()[static_cast<std::size_t>(gpus_.at(static_cast<std::size_t>(actor)))];
  return fmt::format("rank {} ({})", actor, device.name);
}

}  // namespace trainyard
