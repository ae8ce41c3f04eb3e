#include "topologies/machines/cluster_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/hashing.hpp"

namespace trainyard {
namespace {

constexpr KindSet kMessages = bit(Kind::send) | bit(Kind::recv);
constexpr KindSet kWork = bit(Kind::compute) | bit(Kind::local);
/// Kernels beside an exchange over a network lose at most this many times the network's share of the bandwidth of the
/// GPU's memory. Assumed: the bytes of an exchange cross the memory a few times, and a library's kernels spin beside them;
/// 200 leaves each measured run as its stack or GPU states it, since all of them have networks above the bound.
constexpr double kMostDelayByShare = 200;
/// 200 km of fibre, one way. Assumed: machines of one site are nearer.
constexpr Seconds kBetweenSites{1e-3};

/// Returns true if a message between two nodes of the cluster's fabric has a latency of 1 ms or more.
bool has_distant_nodes(const ClusterSpec& cluster) {
  const Picoseconds one_way{2 * cluster.node.hca_latency.count + cluster.switch_latency.count + cluster.distance.count};
  return cluster.uses_hcas() && one_way.seconds() >= kBetweenSites;
}

/// Speed of kernels beside messages over this node's network, by the network's rate alone: a bound from below.
double speed_beside_network(const NodeType& type) {
  const BytesPerSecond rate = type.hca_rate * type.hcas;
  if (rate.value <= 0 || type.gpu.memory_bandwidth.value <= 0) return 0;
  return 1 / (1 + kMostDelayByShare * (rate / type.gpu.memory_bandwidth));
}

}  // namespace

bool has_slow_network(const NodeType& type) {
  return speed_beside_network(type) > type.gpu.compute_while_communicating;
}

bool has_sites(const ClusterSpec& cluster) {
  return has_distant_nodes(cluster) || std::ranges::any_of(cluster.others, [](const NodeGroup& group) {
           return group.island && group.links.latency.seconds() >= kBetweenSites;
         });
}

Seconds dispatch_time(const NodeType& type, const SoftwareStack& stack) {
  return stack.kernel_dispatch * (type.gpu.host_launch / type.cpu.thread_speed);
}

Seconds kernel_cost(const NodeType& type, const SoftwareStack& stack, const Work& work) {
  const Seconds on_gpu = kernel_time(type.gpu, work) / type.gpu_speed;
  return stack.host.runs_ahead ? on_gpu : std::max(on_gpu, dispatch_time(type, stack) * work.launches);
}

ClusterMachine::ClusterMachine(const ClusterSpec& spec, const SoftwareStack& stack)
    : spec_(spec), graph_(build_cluster(spec_)), routing_(graph_, spec_), stack_(stack) {
  actors_ = graph_.devices_of_kind(DeviceKind::gpu);
  ranks_ = actors_.size();
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::nvme, DeviceKind::nvswitch, DeviceKind::network_switch})
    for (const DeviceId id : graph_.devices_of_kind(kind)) actors_.push_back(id);
  for (const DeviceId id : actors_) types_.push_back(&spec_.type_of(graph_.devices()[id].node));
  ports_.resize(actors_.size());
  const std::vector<const NodeType*> types = spec_.types();
  interferes_ = std::ranges::any_of(types, [](const NodeType* type) {
    return type->gpu.compute_while_communicating != 1 || type->gpu.communication_while_computing != 1;
  });
  if (!interferes_) return;
  has_slow_routes_ =
      has_sites(spec_) || std::ranges::any_of(types, [](const NodeType* type) { return has_slow_network(*type); });
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    ports_[rank] = graph_.links_from(actors_[rank]);
    const std::vector<LinkId> in = graph_.links_to(actors_[rank]);
    ports_[rank].insert(ports_[rank].end(), in.begin(), in.end());
  }
}

Actor ClusterMachine::actor(DeviceId id) const {
  const auto found = std::ranges::find(actors_, id);
  if (found == actors_.end()) throw InternalError(graph_.devices()[id].name + " does no work of its own");
  return static_cast<Actor>(found - actors_.begin());
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
  if (work.kernel >= kStepOverhead && work.kernel < kFirstFused) return host_cost(type, work);
  return cached_kernel_cost(type, work);
}

Cost ClusterMachine::cached_kernel_cost(const NodeType& type, Work work) const {
  constexpr std::size_t kEntries = 1024;
  if (priced_.empty()) priced_.resize(kEntries);
  work.sample = 0;  // a kernel takes the same time in each step
  PricedKernel& entry =
      priced_[hash_numbers({std::bit_cast<std::uintptr_t>(&type), std::bit_cast<std::uint64_t>(work.flops.value),
                            std::bit_cast<std::uint64_t>(work.bytes.value), work.kernel}) %
              kEntries];
  if (entry.type != &type || entry.work != work) entry = {&type, work, kernel_cost_of(type, work)};
  return entry.cost;
}

/// The host's own work. A host that runs ahead begins a step when the previous one has ended on the GPU.
Cost ClusterMachine::host_cost(const NodeType& type, const Work& work) const {
  if (work.kernel == kStepOverhead) {
    const Seconds time = stack_.step_overhead * compute_scale_;
    if (!host_runs_ahead()) return {time};
    return {time, time, time, true};
  }
  if (work.kernel == kHostWaits) return {Seconds{0}, Seconds{0}, Seconds{0}, true};
  const Seconds time = stack_.host.micro_batch / type.cpu.thread_speed;
  return {Seconds{0}, time, time, stack_.host.launch_blocking};
}

/// Cost of one kernel. A host that does not run ahead issues a kernel only after the previous one; a host that waits
/// for each kernel adds its own time to it.
Cost ClusterMachine::kernel_cost_of(const NodeType& type, const Work& work) const {
  if (!host_runs_ahead()) return {rank_time(type, stack_, work) * compute_scale_};
  const Seconds on_gpu = rank_time(type, stack_, work);
  // The kernels of a CUDA graph are one launch.
  const double launches = stack_.host.cuda_graphs ? 1 : work.launches;
  const Seconds dispatch = dispatch_time(type, stack_), all = dispatch * launches;
  if (stack_.host.launch_blocking) return {on_gpu + all};
  return {on_gpu, std::max(dispatch + on_gpu, all + on_gpu / launches), all};
}

void ClusterMachine::fuse(const std::vector<std::vector<Work>>& runs) {
  fused_ = &runs;
  fused_costs_.clear();
}

/// Cost of a run of kernels. Each begins when the previous one has ended and it has been launched. If the host is late,
/// the run waits for the last kernel for which the GPU waits; those after it are the run's tail. CUDA graphs are
/// launched at once. The cost is cached for each type of node.
Cost ClusterMachine::fused_cost(const NodeType& type, std::size_t run) const {
  std::vector<Cost>& run_costs = fused_costs_[&type];
  if (run_costs.size() <= run) run_costs.resize(run + 1, {Seconds{-1}});
  Cost& cost = run_costs[run];
  if (cost.duration.value >= 0) return cost;
  cost = {};
  for (const Work& work : fused_->at(run)) {
    const Cost kernel = kernel_cost_of(type, work);
    const bool in_graph = stack_.host.cuda_graphs && cost.host.value > 0;
    const Seconds launched = in_graph ? Seconds{0} : cost.host + kernel.launched;
    cost.duration += kernel.duration;
    if (kernel.host.value > 0) {
      const bool is_late = launched > cost.launched + kernel.duration;  // the GPU waits for this kernel's launch
      cost.tail = is_late ? Seconds{0} : cost.tail + kernel.duration;
      cost.launched = is_late ? launched : cost.launched + kernel.duration;
    }
    if (!in_graph) cost.host += kernel.host;
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
  Route route = routing_.route(device(from), device(to), path_class, to_picoseconds(stack_.network_step));
  route.slow = has_slow_routes_ && is_slow(from, to);
  return route;
}

void ClusterMachine::visit_route(Actor from, Actor to, PathClass path_class,
                                 const std::function<void(const Route&)>& visit) const {
  const Picoseconds software = to_picoseconds(stack_.network_step);
  if (!has_slow_routes_ || !is_slow(from, to))
    return routing_.visit_route(device(from), device(to), path_class, software, visit);
  routing_.visit_route(device(from), device(to), path_class, software, [&visit](const Route& route) {
    Route slow_route = route;
    slow_route.slow = true;
    visit(slow_route);
  });
}

bool ClusterMachine::is_slow(Actor from, Actor to) const {
  const std::span<const Device> devices = graph_.devices();
  const int node = devices[device(from)].node, other = devices[device(to)].node;
  if (node == other) return false;
  if (has_distant_nodes(spec_) || has_slow_network(type_of(from)) || has_slow_network(type_of(to))) return true;
  return node >= 0 && other >= 0 &&
         spec_.latency_between(spec_.island_of(node), spec_.island_of(other)).seconds() >= kBetweenSites;
}

/// Names a removed device or cable of one of the two nodes, or else the first removed one.
std::string ClusterMachine::cause_of_cut(Actor from, Actor to) const {
  if (spec_.taken_out.empty()) return {};
  const RemovedPart* cause = &spec_.taken_out.front();
  for (const RemovedPart& out : spec_.taken_out)
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
  if (active & kMessages) return gpu.compute_while_communicating;
  if (!(active & kSlowMessages)) return 1;
  return std::max(gpu.compute_while_communicating, speed_beside_network(type_of(actor)));
}

std::uint64_t ClusterMachine::equivalence_class(Actor actor) const {
  const std::vector<const NodeType*> types = spec_.types();
  if (static_cast<std::size_t>(actor) >= ranks_) return types.size() + static_cast<std::uint64_t>(actor);
  return static_cast<std::uint64_t>(std::ranges::find(types, &type_of(actor)) - types.begin());
}

std::string ClusterMachine::actor_name(Actor actor) const {
  const std::string& name = graph_.devices()[device(actor)].name;
  return static_cast<std::size_t>(actor) < ranks_ ? fmt::format("rank {} ({})", actor, name) : name;
}

}  // namespace trainyard
