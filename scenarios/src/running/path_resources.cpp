#include "scenarios/src/running/path_resources.hpp"

#include <algorithm>

#include "scenarios/src/running/step_run.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {
namespace {

constexpr const char* kFrameworkName = "framework";

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

std::string_view bound_of(const StepRun& run, Actor actor, const Work& work) {
  return bound_by_memory(gpu_of(run, actor), work) ? "GPU memory" : "GPU compute";
}

/// Returns the share of a kernel's time that is its start-up.
double start_share(const StepRun& run, Actor actor, const Work& work) {
  const Gpu& gpu = gpu_of(run, actor);
  const Seconds time = kernel_time(gpu, work);
  return time.value > 0 ? gpu.kernel_launch / time : 0;
}

bool is_kernel_of_gpu(const StepRun& run, const OpRecord& record) {
  return is_work(record) && record.actor < run.plan.ranks() && is_kernel(record.work.kernel);
}

/// Returns the resource that bounds a piece of an operation. Work of actors that are no GPU is the sums and updates of
/// a server, or decoding.
std::string_view resource_of(const StepRun& run, std::string_view piece, const OpRecord& record) {
  const bool works = is_work(record);
  const bool loads = run.machine.input && record.actor >= run.plan.ranks();
  if (loads && works) return record.kind == Kind::local ? "host memory" : "decoding";
  if (works && record.kind == Kind::local && !run.machine.input && run.machine.on_host(record.actor))
    return "host memory";
  if (is_kernel_of_gpu(run, record)) return bound_of(run, record.actor, record.work);
  if (works) return record.kind == Kind::local ? "GPU memory" : "GPU compute";
  if (piece == "delay") return kFrameworkName;
  if (is_modelled(record) && piece == kOwnLimit) return std::string_view(name_of(limit_of(record.path_class)));
  if (is_modelled(record) && piece == "latency") return kLibraryStart;
  return piece;
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

/// Returns the time that work waited for a host that runs ahead: the time that neither the work itself nor concurrent
/// transfers explain.
double waited_for_host(const StepRun& run, const OpRecord& record, double alone) {
  if (!run.scenario.software.host.runs_ahead) return 0;
  return std::max(0.0, record.ended - record.started - alone / gpu_of(run, record.actor).compute_while_communicating);
}

/// Returns the seconds of a piece that the software sets, not the hardware.
double software_part(const StepRun& run, double seconds, std::string_view piece, const OpRecord& record) {
  const SoftwareStack& stack = run.scenario.software;
  const bool on_gpu = record.actor < run.plan.ranks();
  const double duration = record.ended - record.started;
  if (is_work(record)) {
    if (!on_gpu) return 0;
    if (is_dispatch(run, record.actor, duration)) return seconds;
    if (stack.host.launch_blocking)  // every kernel waits until it is dispatched
      return dispatch_of(run, record.actor) * record.work.launches;
    return waited_for_host(run, record, run.simulated_machine().price(record.work, record.actor).duration.value);
  }
  if (piece != "latency") return 0;
  if (is_modelled(record)) return stack.collective_launch.value;
  const bool between_nodes =
      on_gpu && record.peer >= 0 && record.peer < run.plan.ranks() && std::string_view(record.path).starts_with("NET");
  return between_nodes ? stack.network_step.value : 0;
}

/// Splits a piece and calls add(begin, end, resource) for each part: first the software's part, then a kernel's
/// start-up, then the rest.
template <class Add>
void split(const StepRun& run, const OpRecord& record, double begin, double end, std::string_view piece, Add add) {
  const double hardware = std::min(end, begin + software_part(run, end - begin, piece, record));
  double started = hardware;
  if (is_kernel_of_gpu(run, record)) started += start_share(run, record.actor, record.work) * (end - hardware);
  add(begin, hardware, std::string_view(kFrameworkName));
  add(hardware, started, std::string_view(kKernelStart));
  add(started, end, resource_of(run, piece, record));
}

}  // namespace

void PathNaming::Kernels::add(std::string_view resource, double alone) {
  auto found = std::ranges::find_if(by_resource, [&](const auto& entry) { return entry.first == resource; });
  if (found == by_resource.end()) found = by_resource.insert(found, {resource, 0});
  found->second += alone;
  seconds += alone;
}

/// Books the kernels of one fused operation by the resource that bounds each. If other work slows the operation, it
/// slows all its kernels equally.
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
      const double start = is_kernel(work.kernel) ? start_share(run_, record.actor, work) * alone : 0;
      if (start > 0) kernels.add(kKernelStart, start);
      kernels.add(bound_of(run_, record.actor, work), alone - start);
    }
  // Slow-downs may differ from actor to actor and from step to step; the kernels' shares of the time do not.
  const double undisturbed = run_.simulated_machine().price(record.work, record.actor).duration.value;
  const double waited = std::min(seconds, waited_for_host(run_, record, undisturbed));
  if (waited > 0) to.first.add(to.second, kFrameworkName, waited);
  seconds -= waited;
  for (const auto& [resource, alone] : kernels.by_resource)
    to.first.add(to.second, resource, alone / kernels.seconds * seconds);
}

void PathNaming::name(const OpRecord& record, double begin, double end, std::string_view piece, Book to) const {
  if (is_work(record) && is_fused(record.work.kernel)) return name_fused(record, end - begin, to);
  split(run_, record, begin, end, piece, [&to](double from, double until, std::string_view resource) {
    if (until > from) to.first.add(to.second, resource, until - from);
  });
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
  const auto add = [&](OpId id, double begin, double end, std::string_view resource) {
    begin = std::clamp(begin, run.begin(), run.end_of_steps());
    end = std::clamp(end, run.begin(), run.end_of_steps());
    if (end > begin) path.push_back({id, begin, end, std::string(resource)});
  };
  for (const PathStep& step : critical_path(run.timeline, run.simulated_machine().links(), run.window.last())) {
    const OpRecord& record = run.timeline.records()[step.id - 1];
    split(run, record, step.begin, step.end, step.resource,
          [&](double from, double until, std::string_view resource) { add(step.id, from, until, resource); });
  }
  return path;
}

}  // namespace trainyard
