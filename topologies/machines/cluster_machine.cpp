#include "topologies/machines/cluster_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/hardware/nvlinks.hpp"

namespace trainyard {
namespace {
constexpr KindSet kMessages = bit(Kind::send) | bit(Kind::recv);
constexpr KindSet kWork = bit(Kind::compute) | bit(Kind::local);

/// How much faster a what-if makes each resource class.
class Factors {
 public:
  explicit Factors(const Upgrade& upgrade) : upgrade_(upgrade) {}
  double operator()(const std::string& resource_class) const {
    const auto at = upgrade_.find(resource_class);
    return at == upgrade_.end() ? 1.0 : at->second;
  }
  double operator()(LinkKind kind) const { return (*this)(std::string(name_of(kind))); }

 private:
  const Upgrade& upgrade_;
};

NodeType upgraded_node(NodeType node, const Factors& factor) {
  for (FlopsPerSecond& peak : node.gpu.peak) peak = peak * factor("compute");
  node.gpu.gemm.l2_feed = node.gpu.gemm.l2_feed * factor("compute");  // of the SMs' clock
  node.gpu.memory_bandwidth = node.gpu.memory_bandwidth * factor("memory");
  const std::pair<BytesPerSecond*, LinkKind> rates[] = {{&node.gpu.nvlink, LinkKind::nvlink},
                                                        {&node.gpu.chip_links.rate, LinkKind::ici},
                                                        {&node.nvlink_rate, LinkKind::nvlink},
                                                        {&node.pcie_rate, LinkKind::pcie},
                                                        {&node.gpu_pcie_rate, LinkKind::pcie},
                                                        {&node.socket_rate, LinkKind::socket},
                                                        {&node.nvme.read, LinkKind::nvme},
                                                        {&node.nvme.write, LinkKind::nvme},
                                                        {&node.cpu.copy_rate, LinkKind::cpu_copies},
                                                        {&node.cpu.memory_bandwidth, LinkKind::host_memory},
                                                        {&node.hca_rate, LinkKind::hca}};
  for (const auto& [rate, kind] : rates) *rate = *rate * factor(kind);
  for (GraphWire& wire : node.wires) wire.rate = wire.rate * factor(wire.kind);
  for (Picoseconds* latency :
       {&node.nvlink_latency, &node.pcie_latency, &node.socket_latency, &node.hca_latency, &node.nvme.latency})
    *latency = to_picoseconds(latency->seconds() / factor("latency"));
  for (GraphWire& wire : node.wires) wire.latency = to_picoseconds(wire.latency.seconds() / factor("latency"));
  return node;
}

/// Does a cluster of several GPUs have links of this kind, so that making them faster could pay?
bool has_links(const ClusterSpec& spec, LinkKind kind) {
  const std::vector<const NodeType*> types = spec.types();
  const auto any = [&types](auto has) {
    return std::any_of(types.begin(), types.end(), [&](const NodeType* type) { return has(*type); });
  };
  const std::vector<LinkKind> joined = spec.fabric ? spec.fabric->link_kinds() : std::vector<LinkKind>{};
  const bool in_fabric = std::find(joined.begin(), joined.end(), kind) != joined.end();
  switch (kind) {
    case LinkKind::nvlink:
      return any(has_nvlink);
    case LinkKind::pcie:
      return true;
    case LinkKind::socket:
      return any([](const NodeType& t) { return t.sockets > 1; });
    case LinkKind::host_memory:
      return any([](const NodeType& t) { return t.cpu.memory_bandwidth.value > 0; });
    case LinkKind::cpu_copies:
      return spec.nodes > 1 && any([](const NodeType& t) { return t.network.tcp && t.cpu.copy_rate.value > 0; });
    case LinkKind::ici:
      return in_fabric;
    case LinkKind::hca:
    case LinkKind::uplink:
      return spec.nodes > 1 && in_fabric;
    default:
      return false;
  }
}

}  // namespace

std::vector<std::string> resource_classes(const ClusterSpec& spec) {
  std::vector<std::string> classes{"compute", "memory"};
  if (spec.gpus() > 1) {
    for (const LinkKind kind : all_link_kinds())
      if (has_links(spec, kind)) classes.emplace_back(name_of(kind));
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
  for (const LinkKind kind : all_link_kinds())
    if (c == name_of(kind)) return fmt::format("{}x {}", factor, words_of(kind).upgraded);
  return fmt::format("{}x {} rate", factor, c);
}

ClusterSpec upgraded(ClusterSpec spec, const Upgrade& upgrade) {
  const Factors factor(upgrade);
  if (spec.fabric) spec.fabric = spec.fabric->upgraded(spec, {factor, factor("latency")});
  spec.node = upgraded_node(std::move(spec.node), factor);
  for (NodeGroup& group : spec.others) group.type = upgraded_node(std::move(group.type), factor);
  // The speed of light is not for sale: distances stay.
  spec.switch_latency = to_picoseconds(spec.switch_latency.seconds() / factor("latency"));
  return spec;
}

SoftwareStack upgraded(SoftwareStack stack, const Upgrade& upgrade) {
  const auto at = upgrade.find("framework");
  const double factor = at == upgrade.end() ? 1.0 : at->second;
  stack.kernel_dispatch = stack.kernel_dispatch / factor;
  stack.collective_launch = stack.collective_launch / factor;
  stack.network_step = stack.network_step / factor;
  stack.cycle_time = stack.cycle_time / factor;
  stack.step_overhead = stack.step_overhead / factor;
  stack.host.micro_batch = stack.host.micro_batch / factor;
  return stack;
}

Seconds kernel_cost(const NodeType& type, const SoftwareStack& stack, const Work& work) {
  const Seconds on_gpu = kernel_time(type.gpu, work) / type.gpu_speed;
  return stack.host.runs_ahead ? on_gpu : std::max(on_gpu, stack.kernel_dispatch);
}

ClusterMachine::ClusterMachine(const ClusterSpec& spec, const SoftwareStack& stack)
    : spec_(spec), graph_(build_cluster(spec_)), routing_(graph_, spec_), stack_(stack) {
  actors_ = graph_.all(DeviceKind::gpu);
  ranks_ = actors_.size();
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::nvme, DeviceKind::nvswitch, DeviceKind::network_switch})
    for (const DeviceId id : graph_.all(kind)) actors_.push_back(id);
  ports_.resize(actors_.size());
  const std::vector<const NodeType*> types = spec_.types();
  interferes_ = std::any_of(types.begin(), types.end(), [](const NodeType* type) {
    return type->gpu.compute_while_communicating != 1 || type->gpu.communication_while_computing != 1;
  });
  if (!interferes_) return;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    ports_[rank] = graph_.links_from(actors_[rank]);
    const std::vector<LinkId> in = graph_.links_to(actors_[rank]);
    ports_[rank].insert(ports_[rank].end(), in.begin(), in.end());
  }
}

const NodeType& ClusterMachine::type_of(Actor actor) const {
  return spec_.type_of(graph_.devices()[device(actor)].node);
}

Actor ClusterMachine::actor(DeviceId id) const {
  const auto at = std::find(actors_.begin(), actors_.end(), id);
  if (at == actors_.end()) throw InternalError(graph_.devices()[id].name + " does no work of its own");
  return static_cast<Actor>(at - actors_.begin());
}

Seconds rank_time(const NodeType& type, const SoftwareStack& stack, const Work& work) {
  if (work.kernel == kStepOverhead) return stack.step_overhead;
  return kernel_cost(type, stack, work);
}

Cost ClusterMachine::price(const Work& work, Actor actor) const {
  if (work.kernel == kCycleWait) return {stack_.cycle_time / 2};
  const NodeType& type = type_of(actor);
  if (is_fused(work.kernel)) return fused_cost(type, work.kernel - kFirstFused);
  if (work.kernel == kBucketCopy) return {bucket_copy_time(type, work)};
  if (static_cast<std::size_t>(actor) >= ranks_) return {host_time(type.cpu, work)};
  if (work.kernel >= kStepOverhead && work.kernel < kFirstFused) return host_cost(work);
  return kernel_cost_of(type, work);
}

/// The host's own work; one that runs ahead begins a step when the one before has ended on the GPU.
Cost ClusterMachine::host_cost(const Work& work) const {
  if (work.kernel == kStepOverhead) {
    const Seconds time = stack_.step_overhead * compute_scale_;
    if (!host_runs_ahead()) return {time};
    return {time, time, time, true};
  }
  if (work.kernel == kHostWaits) return {Seconds{0}, Seconds{0}, Seconds{0}, true};
  return {Seconds{0}, stack_.host.micro_batch, stack_.host.micro_batch, stack_.host.launch_blocking};
}

/// Of one kernel: a host that does not run ahead issues no faster than it is done with one; one that waits for each to
/// end adds its own time to every kernel's.
Cost ClusterMachine::kernel_cost_of(const NodeType& type, const Work& work) const {
  if (!host_runs_ahead()) return {rank_time(type, stack_, work) * compute_scale_};
  const Seconds on_gpu = rank_time(type, stack_, work);
  if (stack_.host.launch_blocking) return {on_gpu + stack_.kernel_dispatch};
  return {on_gpu, stack_.kernel_dispatch + on_gpu, stack_.kernel_dispatch};
}

void ClusterMachine::fuse(const std::vector<std::vector<Work>>& runs) {
  fused_ = &runs;
  fused_costs_.clear();
}

/// Each kernel begins when the one before has ended and it is launched; remembered for each type of node. CUDA graphs are
/// launched at once.
Cost ClusterMachine::fused_cost(const NodeType& type, std::size_t run) const {
  std::vector<Cost>& known = fused_costs_[&type];
  if (known.size() <= run) known.resize(run + 1, {Seconds{-1}});
  Cost& cost = known[run];
  if (cost.duration.value >= 0) return cost;
  cost = {};
  for (const Work& work : fused_->at(run)) {
    const Cost one = kernel_cost_of(type, work);
    cost.duration += one.duration;
    if (cost.host.value == 0 || !stack_.host.cuda_graphs) cost.host += one.host;
    if (one.host.value > 0) cost.launched = std::max(cost.launched, cost.host) + one.duration;
  }
  return cost;
}

/// Buckets in host memory are copied by the CPU (its rate counts each byte once), others by a kernel of the GPU.
Seconds ClusterMachine::bucket_copy_time(const NodeType& type, Work work) const {
  if (stack_.host_buckets) return type.cpu.copy_rate.value > 0 ? work.bytes / 2 / type.cpu.copy_rate : Seconds{0};
  work.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
  return rank_time(type, stack_, work);
}

Route ClusterMachine::route(Actor from, Actor to, PathClass path_class) const {
  return routing_.route(device(from), device(to), path_class, to_picoseconds(stack_.network_step));
}

/// What is taken out of one of both nodes, or else the first of all.
std::string ClusterMachine::cause_of_cut(Actor from, Actor to) const {
  if (spec_.taken_out.empty()) return {};
  const TakenOut* cause = &spec_.taken_out.front();
  for (const TakenOut& out : spec_.taken_out)
    for (const Actor end : {from, to}) {
      const Device& of_end = graph_.devices()[device(end)];
      if (out.name.starts_with(fmt::format("node{}/", of_end.node))) cause = &out;
    }
  const std::string place = cause->place.text(), key = "cluster.taken_out: ";
  return fmt::format("{}{}{}without {}, ", place, place.empty() ? "" : ": ", place.starts_with("--set") ? "" : key,
                     cause->name);
}

double ClusterMachine::speed(Actor actor, Kind kind, KindSet active) const {
  if (static_cast<std::size_t>(actor) >= ranks_) return 1;
  const Gpu& gpu = type_of(actor).gpu;
  if (kind == Kind::send || kind == Kind::recv) return (active & kWork) ? gpu.communication_while_computing : 1;
  return (active & kMessages) ? gpu.compute_while_communicating : 1;
}

std::uint64_t ClusterMachine::likeness(Actor actor) const {
  const std::vector<const NodeType*> types = spec_.types();
  if (static_cast<std::size_t>(actor) >= ranks_) return types.size() + static_cast<std::uint64_t>(actor);
  return static_cast<std::uint64_t>(std::find(types.begin(), types.end(), &type_of(actor)) - types.begin());
}

std::string ClusterMachine::actor_name(Actor actor) const {
  const std::string& name = graph_.devices()[device(actor)].name;
  return static_cast<std::size_t>(actor) < ranks_ ? fmt::format("rank {} ({})", actor, name) : name;
}

}  // namespace trainyard
