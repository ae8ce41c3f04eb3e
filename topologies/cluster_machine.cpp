#include "topologies/cluster_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {
constexpr KindSet kMessages = bit(Kind::send) | bit(Kind::recv);
constexpr DeviceId kUnknown = -2, kNone = -1;
constexpr KindSet kWork = bit(Kind::compute) | bit(Kind::local);
}  // namespace

std::vector<std::string> resource_classes(const ClusterSpec& spec) {
  std::vector<std::string> classes{"compute", "memory"};
  if (spec.gpus() > 1) {
    if (spec.node.interconnect != "pcie") classes.emplace_back("NVLink");
    classes.emplace_back("PCIe");
    if (spec.node.sockets > 1) classes.emplace_back("socket");
    if (spec.nodes > 1) classes.emplace_back("HCA");
    if (spec.nodes > 1 && !spec.levels.empty()) classes.emplace_back("uplink");
    classes.emplace_back("latency");
  }
  classes.emplace_back("framework");
  return classes;
}

std::string describe_upgrade(const std::string& c, double factor) {
  if (c == "latency") return fmt::format("1/{} of the network latency", factor);
  if (c == "framework") return fmt::format("1/{} of the software overheads", factor);
  if (c == "compute") return fmt::format("{}x GPU FLOP/s", factor);
  if (c == "memory") return fmt::format("{}x GPU memory bandwidth", factor);
  if (c == "uplink") return fmt::format("{}x uplinks between switches", factor);
  return fmt::format("{}x {} rate", factor, c);
}

ClusterSpec upgraded(ClusterSpec spec, const Upgrade& upgrade) {
  const auto factor = [&upgrade](const char* c) {
    const auto at = upgrade.find(c);
    return at == upgrade.end() ? 1.0 : at->second;
  };
  for (FlopsPerSecond& peak : spec.node.gpu.peak) peak = peak * factor("compute");
  spec.node.gpu.memory_bandwidth = spec.node.gpu.memory_bandwidth * factor("memory");
  spec.node.gpu.nvlink = spec.node.gpu.nvlink * factor("NVLink");
  spec.node.nvlink_rate = spec.node.nvlink_rate * factor("NVLink");
  spec.node.pcie_rate = spec.node.pcie_rate * factor("PCIe");
  spec.node.gpu_pcie_rate = spec.node.gpu_pcie_rate * factor("PCIe");
  spec.node.socket_rate = spec.node.socket_rate * factor("socket");
  spec.node.hca_rate = spec.node.hca_rate * factor("HCA");
  // The levels' rates follow the HCAs': both keep their ratio unless it is the uplinks that are made faster.
  for (FabricLevel& level : spec.levels) level.oversubscription *= factor("HCA");
  if (!spec.levels.empty()) spec.levels.front().oversubscription /= factor("uplink");
  for (std::size_t l = 1; l < spec.levels.size(); ++l) spec.levels[l].oversubscription /= factor("HCA");
  const auto faster = [&](Picoseconds t) { return to_picoseconds(t.seconds() / factor("latency")); };
  spec.node.nvlink_latency = faster(spec.node.nvlink_latency);
  spec.node.pcie_latency = faster(spec.node.pcie_latency);
  spec.node.socket_latency = faster(spec.node.socket_latency);
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
    : graph_(build_cluster(spec)),
      gpu_(spec.node.gpu),
      stack_(stack),
      gpus_(graph_.all(DeviceKind::gpu)),
      hcas_(gpus_.size(), kUnknown) {
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
  const auto source = static_cast<std::size_t>(from), target = static_cast<std::size_t>(to);
  const auto node = [this](DeviceId device) { return graph_.devices()[static_cast<std::size_t>(device)].node; };
  if (node(gpus_.at(source)) == node(gpus_.at(target))) return graph_.route(gpus_[source], gpus_[target], path);
  Route route = through_own_hcas(source, target, path);
  if (!route.reachable) route = graph_.route(gpus_[source], gpus_[target], path);
  route.latency += to_picoseconds(stack_.network_step);
  return route;
}

/// Both GPUs use the HCA nearest to them, whatever shorter way another one would open: so do communication libraries,
/// and so no two of them meet on a PCIe link by chance. Unreachable where one has none, or a link of the way is down.
Route ClusterMachine::through_own_hcas(std::size_t source, std::size_t target, PathClass path) const {
  Route whole;
  const DeviceId out = nearest_hca(source), in = nearest_hca(target);
  whole.reachable = out >= 0 && in >= 0;
  if (!whole.reachable) return whole;
  std::vector<LinkUse> links;
  struct Part {
    DeviceId from, to;
    PathClass path;
  };
  for (const auto& [a, b, way] :
       {Part{gpus_[source], out, path}, Part{out, in, PathClass::fabric}, Part{in, gpus_[target], path}}) {
    const Route part = graph_.route(a, b, way);
    whole.reachable &= part.reachable;
    whole.latency += part.latency;
    links.insert(links.end(), part.links.begin(), part.links.end());
  }
  if (whole.reachable) whole.links = joined_.emplace_back(std::move(links));
  return whole;
}

/// By the cost of the way. Of several equally near ones GPUs take turns, by their index in the node.
DeviceId ClusterMachine::nearest_hca(std::size_t gpu) const {
  DeviceId& best = hcas_[gpu];
  if (best != kUnknown) return best;
  best = kNone;
  const Device& device = graph_.devices()[static_cast<std::size_t>(gpus_[gpu])];
  std::vector<DeviceId> nearest;
  std::int64_t least = 0;
  for (const DeviceId hca : graph_.all(DeviceKind::hca, device.node)) {
    const std::optional<std::int64_t> cost = graph_.cost(gpus_[gpu], hca);
    if (!cost || (!nearest.empty() && *cost > least)) continue;
    if (nearest.empty() || *cost < least) nearest.clear();
    least = *cost;
    nearest.push_back(hca);
  }
  if (!nearest.empty()) best = nearest[static_cast<std::size_t>(device.index) % nearest.size()];
  return best;
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
