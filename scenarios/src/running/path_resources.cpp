#include "scenarios/src/running/path_resources.hpp"

#include <algorithm>
#include <bit>

#include "models/hardware/adapter_rate.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "sim/hashing.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {
namespace {

/// Returns true if this join belongs to a modelled collective, which has a rate cap of its own.
bool is_modelled(const OpRecord& record) {
  return record.kind == Kind::join && record.path_class != PathClass::automatic;
}

bool is_work(const OpRecord& record) {
  return record.began && (record.kind == Kind::compute || record.kind == Kind::local);
}

const NodeType& node_of(const StepRun& run, Actor actor) {
  return run.machine.cluster.spec().type_of_gpu(run.rank_of(actor));
}

const Gpu& gpu_of(const StepRun& run, Actor actor) { return node_of(run, actor).gpu; }

/// Returns "PCIe" in place of "HCA" if the slot of the node's HCAs is slower than they are.
std::string_view adapter_limit(const StepRun& run, const OpRecord& record, std::string_view piece) {
  static const std::string_view adapter = name_of(LinkKind::hca);
  if (piece != adapter) return piece;
  const bool is_rank = record.actor < run.plan.ranks();
  const NodeType& node = is_rank ? node_of(run, record.actor) : run.machine.cluster.spec().node;
  return slot_rate(node) < node.hca_rate ? std::string_view(name_of(LinkKind::pcie)) : piece;
}

bool is_kernel_of_gpu(const StepRun& run, const OpRecord& record) {
  return is_work(record) && record.actor < run.plan.ranks() && is_kernel(record.work.kernel);
}

/// Returns the resource that bounds a piece of an operation that is no kernel of a GPU. Work of actors that are no GPU is
/// the sums and updates of a server, or decoding.
std::string_view resource_of(const StepRun& run, std::string_view piece, const OpRecord& record) {
  const bool works = is_work(record);
  const bool loads = run.machine.input && record.actor >= run.plan.ranks();
  if (loads && works) return record.kind == Kind::local ? "host memory" : "decoding";
  if (works && record.kind == Kind::local && !run.machine.input && run.machine.on_host(record.actor))
    return "host memory";
  if (works) return record.kind == Kind::local ? kMemoryName : kComputeName;
  if (loads && piece == kLatencyName) return kStorageLatency;
  if (piece == "delay") return kFrameworkName;
  if (is_modelled(record) && piece == kOwnLimit)
    return adapter_limit(run, record, std::string_view(name_of(limit_of(record.path_class))));
  return adapter_limit(run, record, piece);
}

/// Returns the seconds in which the host of an actor issues one kernel.
double dispatch_of(const StepRun& run, Actor actor) {
  return dispatch_time(node_of(run, actor), run.scenario.software).value;
}

/// Returns true if a kernel ends before the host can issue the next one.
bool is_dispatch(const StepRun& run, Actor actor, double duration) {
  return !run.scenario.software.host.runs_ahead &&
         duration <= dispatch_of(run, actor) * run.planned.compute_scale * (1 + 1e-9);
}

/// Returns the seconds of a piece that the software sets, not the hardware.
double software_part(const StepRun& run, double seconds, std::string_view piece, const OpRecord& record) {
  const SoftwareStack& stack = run.scenario.software;
  const bool on_gpu = record.actor < run.plan.ranks();
  const double duration = record.ended - record.started;
  if (is_work(record)) {
    if (!on_gpu) return 0;
    if (is_dispatch(run, record.actor, duration)) return seconds;
    // With blocking launches every kernel waits until it is dispatched.
    return stack.host.launch_blocking ? dispatch_of(run, record.actor) * record.work.launches : 0;
  }
  if (piece != kLatencyName) return 0;
  if (is_modelled(record)) return stack.collective_launch.value;
  const bool is_between_nodes = std::string_view(record.path).starts_with("NET");
  return record.extra_latency + (is_between_nodes ? stack.network_step.value * record.latencies : 0);
}

/// Returns the share of an operation's time that messages beside it add. All its pieces are slowed equally.
double slowed_share(const StepRun& run, const OpRecord& record) {
  const Machine& machine = run.simulated_machine();
  if (!is_work(record) || !machine.contention()) return 0;
  const double alone = machine.price(record.work, record.actor).duration.value;
  const double taken = record.ended - record.started;
  return taken > alone * (1 + 1e-9) ? 1 - alone / taken : 0;
}

/// Splits a piece and calls add(begin, end, resource) for each part. The software's part comes first, and the slow-down
/// by exchanges last. A kernel is split further into its start-up, its arithmetic and what memory adds (`shares` returns
/// them); the latency of a modelled collective into that of the network and the library's start-up.
template <class Shares, class Add>
void split(const StepRun& run, const OpRecord& record, double begin, double end, std::string_view piece, Shares shares,
           Add add) {
  if (piece == kHostLaunch) return add(begin, end, std::string_view(kFrameworkName));
  const double hardware = std::min(end, begin + software_part(run, end - begin, piece, record));
  add(begin, hardware, std::string_view(kFrameworkName));
  if (is_modelled(record) && piece == "latency") {
    const double arrived = std::min(end, hardware + network_latency_of(record.work).value);
    add(hardware, arrived, piece);
    return add(arrived, end, std::string_view(kLibraryStart));
  }
  const double undisturbed = std::max(hardware, end - slowed_share(run, record) * (end - begin));
  if (is_kernel_of_gpu(run, record))
    shares(gpu_of(run, record.actor), record.work).split(hardware, undisturbed, add);
  else
    add(hardware, undisturbed, resource_of(run, piece, record));
  add(undisturbed, end, std::string_view(kSlowdownName));
}

}  // namespace

KernelShares shares_of(const Gpu& gpu, const Work& work) {
  const Seconds time = kernel_time(gpu, work);
  if (!(time.value > 0)) return {};
  return {gpu.kernel_launch / time, memory_time(gpu, work) / time};
}

void PathNaming::Kernels::add(std::string_view resource, double alone) {
  auto found = std::ranges::find_if(by_resource, [&](const auto& entry) { return entry.first == resource; });
  if (found == by_resource.end()) found = by_resource.insert(found, {resource, 0});
  found->second += alone;
  seconds += alone;
}

/// Books the kernels of one fused operation by the resource that bounds each. Exchanges beside the operation slow all its
/// kernels equally.
void PathNaming::name_fused(const OpRecord& record, double seconds, Book to) const {
  const std::size_t number = record.work.kernel - kFirstFused;
  std::vector<Kernels>& type_kernels = fused_[&run_.machine.cluster.spec().type_of_gpu(run_.rank_of(record.actor))];
  if (type_kernels.size() <= number) type_kernels.resize(number + 1);
  Kernels& kernels = type_kernels[number];
  if (kernels.seconds == 0)
    for (const Work& work : run_.mechanism->tables().fused().runs()[number]) {
      double alone = run_.simulated_machine().price(work, record.actor).duration.value;
      if (is_dispatch(run_, record.actor, alone)) {
        kernels.add(kFrameworkName, alone);
        continue;
      }
      if (run_.scenario.software.host.launch_blocking) {
        const double launches = dispatch_of(run_, record.actor) * work.launches;
        kernels.add(kFrameworkName, launches);
        alone -= launches;
      }
      const KernelShares shares = is_kernel(work.kernel) ? shares_of(gpu_of(run_, record.actor), work) : KernelShares{};
      if (shares.start > 0) kernels.add(kKernelStart, shares.start * alone);
      if (shares.memory > 0) kernels.add(kMemoryName, shares.memory * alone);
      kernels.add(kComputeName, (1 - shares.start - shares.memory) * alone);
    }
  // Slow-downs differ from actor to actor and from step to step; the kernels' shares of the rest do not.
  const double slowed = slowed_share(run_, record) * seconds;
  for (const auto& [resource, alone] : kernels.by_resource)
    to.first.add(to.second, resource, alone / kernels.seconds * (seconds - slowed));
  if (slowed > 0) to.first.add(to.second, kSlowdownName, slowed);
}

void PathNaming::name(const OpRecord& record, double begin, double end, std::string_view piece, Book to) const {
  if (is_work(record) && is_fused(record.work.kernel) && piece != kHostLaunch)
    return name_fused(record, end - begin, to);
  const auto shares = [this](const Gpu& gpu, const Work& work) { return known_shares(gpu, work); };
  split(run_, record, begin, end, piece, shares, [&to](double from, double until, std::string_view resource) {
    if (until > from) to.first.add(to.second, resource, until - from);
  });
}

KernelShares PathNaming::known_shares(const Gpu& gpu, Work work) const {
  work.sample = 0;  // a kernel has the same shares in each step
  const std::uint64_t hash = hash_numbers(
      {std::bit_cast<std::uint64_t>(work.flops.value), std::bit_cast<std::uint64_t>(work.bytes.value), work.kernel});
  KnownKernel& kernel = known_[hash % known_.size()];
  if (kernel.gpu != &gpu || kernel.work != work) kernel = {&gpu, work, shares_of(gpu, work)};
  return kernel.shares;
}

void PathWatch::watch(SimulateOptions& options) {
  options.observe.emplace_back([this](const StepRun& run) -> Observer* {
    if (run.records() || (run.plan.marks_steps && run.plan.steps > 1) || !run.is_synchronous()) return nullptr;
    naming_.emplace(run);
    return &path_.emplace(run.simulated_machine().links(), *naming_);
  });
}

std::vector<PathStep> named_path(const StepRun& run) {
  if (!run.is_synchronous()) return {};
  std::vector<PathStep> path;
  const double steps_begin = run.begin(), steps_end = run.end_of_steps();  // both look at every rank
  const auto add = [&](OpId id, double begin, double end, std::string_view resource) {
    begin = std::clamp(begin, steps_begin, steps_end);
    end = std::clamp(end, steps_begin, steps_end);
    if (end > begin) path.push_back({id, begin, end, std::string(resource)});
  };
  for (const PathStep& step : critical_path(run.timeline, run.simulated_machine().links(), run.window.last())) {
    const OpRecord& record = run.timeline.records()[step.id - 1];
    split(run, record, step.begin, step.end, step.resource, shares_of,
          [&](double from, double until, std::string_view resource) { add(step.id, from, until, resource); });
  }
  return path;
}

}  // namespace trainyard
