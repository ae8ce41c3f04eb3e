#include "scenarios/running/path_resources.hpp"

#include <algorithm>

#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {
namespace {

constexpr const char* kFramework = "framework";

/// Does a modelled collective's own rate cap hold for this join?
bool is_modelled(const OpRecord& record) {
  return record.kind == Kind::join && record.path_class != PathClass::automatic;
}

/// What the operation's work is bound by; of actors that are no GPU it is a server's sums and updates, or decoding.
std::string resource_of(const StepRun& run, const PathStep& step, const OpRecord& record) {
  const bool works = step.resource == "compute" || step.resource == "memory";
  const bool loads = run.machine.input && record.actor >= run.plan.ranks();
  if (loads && works) return step.resource == "memory" ? "host memory" : "decoding";
  if (step.resource == "memory" && !run.machine.input && run.machine.on_host(record.actor)) return "host memory";
  if (works && record.actor < run.plan.ranks() && is_kernel(record.work.kernel))
    return bound_by_memory(run.machine.cluster.spec().type_of_gpu(run.rank_of(record.actor)).gpu, record.work)
               ? "GPU memory"
               : "GPU compute";
  if (works) return step.resource == "memory" ? "GPU memory" : "GPU compute";
  if (step.resource == "delay") return kFramework;
  if (is_modelled(record) && step.resource == kOwnLimit) return name_of(limit_of(record.path_class));
  if (is_modelled(record) && step.resource == "latency") return kLibraryStart;
  return step.resource;
}

/// The part of a piece that the stack sets, not the hardware; seconds.
double software_part(const StepRun& run, const PathStep& step, const OpRecord& record) {
  const SoftwareStack& stack = run.scenario.software;
  const bool on_gpu = record.actor < run.plan.ranks();
  const double duration = record.ended - record.started;
  if (step.resource == "compute" || step.resource == "memory") {
    const double floor = stack.kernel_dispatch.value * run.planned.compute_scale;
    return on_gpu && duration <= floor * (1 + 1e-9) ? step.end - step.begin : 0;
  }
  if (step.resource != "latency") return 0;
  if (is_modelled(record)) return stack.collective_launch.value;
  const bool between_nodes =
      on_gpu && record.peer >= 0 && record.peer < run.plan.ranks() && std::string_view(record.path).starts_with("NET");
  return between_nodes ? stack.network_step.value : 0;
}

}  // namespace

std::vector<PathStep> named_path(const StepRun& run) {
  if (!run.in_step()) return {};
  std::vector<PathStep> path;
  const auto add = [&](OpId id, double begin, double end, std::string resource) {
    begin = std::clamp(begin, run.begin(), run.end_of_steps());
    end = std::clamp(end, run.begin(), run.end_of_steps());
    if (end > begin) path.push_back({id, begin, end, std::move(resource)});
  };
  for (const PathStep& step : critical_path(run.timeline, run.simulated().links(), run.window.last())) {
    const OpRecord& record = run.timeline.records()[step.id - 1];
    const double hardware = std::min(step.end, step.begin + software_part(run, step, record));
    add(step.id, step.begin, hardware, kFramework);
    add(step.id, hardware, step.end, resource_of(run, step, record));
  }
  return path;
}

}  // namespace trainyard
