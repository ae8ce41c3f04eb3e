#include <algorithm>

#include "scenarios/running/step_result.hpp"
#include "sim/process/child.hpp"

namespace trainyard {

/// What workers wait for in a step, all of them taken together.
void book_servers(const StepRun& run, Result& r) {
  const ServerPlan& plan = run.machine.servers->plan;
  r.servers.workers = plan.workers();
  r.servers.servers = plan.servers;
  r.servers.consistency = consistency_names()[static_cast<std::size_t>(plan.consistency)];
  std::vector<double> held(static_cast<std::size_t>(plan.servers));
  for (std::size_t k = 0; k < plan.keys(); ++k) held[static_cast<std::size_t>(plan.server_of[k])] += plan.share_of(k);
  r.servers.largest_share = *std::max_element(held.begin(), held.end());
  r.staleness = run.board->staleness();
  std::uint64_t applied = 0;
  for (const auto& [of, count] : r.staleness) applied += count;
  const auto dropped = static_cast<double>(run.board->dropped_pushes());
  r.servers.dropped_share = dropped / (dropped + static_cast<double>(applied));
  const char* others = plan.consistency == Consistency::synchronous ? "barrier"
                       : plan.consistency == Consistency::stale     ? "staleness bound"
                                                                    : "server";
  for (Actor worker = 0; worker < plan.workers(); ++worker) {
    const BreakdownParts parts = run.window.parts(worker);
    const double each = plan.workers() * run.steps();
    r.servers.waits["pull"] += parts.exposed.at("parameters").value / each;
    r.servers.waits["push"] += parts.exposed.at("gradients").value / each;
    r.servers.waits[others] += parts.bubble.value / each;
  }
  // Late gradients teach nothing.
  r.samples_per_s *= static_cast<double>(plan.workers() - plan.backup_workers) / plan.workers();
}

std::optional<Result> fed_result(const Scenario& s, SimulateOptions options) {
  if (!s.input.used()) return std::nullopt;
  Scenario fed = s;
  fed.input = {};
  options.critical_path = options.progress = false;
  options.trace.clear();
  options.picture.clear();
  return result_from_text(in_child([&] { return to_text(result_of(fed, StepRun(fed, options))); }));
}

/// A rank that waits for a peer's gradients may wait for the peer's samples, or have posted its receive while it waits for
/// its own: what a rank is seen to wait for does not tell. What the step loses does.
void book_starvation(const Result& fed, Result& r) {
  const double wait = r.step_time - fed.step_time;
  if (wait <= 0) return;
  r.input->starved_share = wait / r.step_time;
  r.breakdown = fed.breakdown;
  r.breakdown.input = wait;
}

/// How busy what brings samples is.
void book_input(const Scenario& s, const StepRun& run, Result& r) {
  const InputSupply& supply = s.input.supply;
  Result::Input& input = r.input.emplace();
  const double end = run.end.end.value;
  for (const LinkId link : run.machine.input->machine().storage_links())
    input.storage_busy = std::max(
        input.storage_busy,
        run.traffic.on_link(link) / run.machine.top().links()[static_cast<std::size_t>(link)].capacity / Seconds{end});
  std::map<int, double> staged;  // by node
  for (const InputMachine::Group& group : run.machine.input->machine().groups()) {
    const BreakdownParts parts = run.breakdown.parts(group.loader);
    if (const auto decode = parts.work.find("decode"); decode != parts.work.end())
      input.decode_busy = std::max(input.decode_busy, decode->second / Seconds{end});
    staged[group.node] += run.memory.peak(group.loader).value;
    input.read += run.traffic.received(group.loader).value / run.plan.steps;
  }
  const Bytes dataset = supply.samples * supply.sample;
  for (const auto& [node, bytes] : staged)
    input.host_bytes = std::max(input.host_bytes, bytes + std::min(supply.cache, dataset).value);
  input.from_cache = 1 - supply.missed;
}

}  // namespace trainyard
