#include <algorithm>
#include <cmath>

#include "scenarios/src/running/step_result.hpp"
#include "scenarios/src/running/step_run.hpp"

namespace trainyard {

std::optional<Result> simulate_without_input_wait(const Scenario& s, const Plan& plan, SimulateOptions options) {
  if (!s.input.is_used()) return std::nullopt;
  Scenario fed = s;
  fed.input = {};
  options.critical_path = options.progress = false;
  options.trace.clear();
  options.watch = nullptr;
  return result_of(StepRun(fed, plan, options));
}

/// Adds the wait for samples: the difference of two step times, not the observed waiting of a rank. A rank that waits
/// for a peer's gradients may in truth wait for the peer's samples. A rank that waits for its own samples may have posted
/// a receive, and then seems to wait for a peer.
void book_input_wait(const Result& fed, Result& r) {
  const double wait = r.step_time.value - fed.step_time.value;
  if (wait <= 1e-9 * r.step_time.value) return;  // rounding
  r.input->starved_share = wait / r.step_time.value;
  const auto take = [wait](const Result::Breakdown& fed_breakdown, Result::Breakdown& b) {
    b = fed_breakdown;
    b.input.value = wait;
    b.step_time.value += wait;
  };
  take(fed.breakdown, r.breakdown);
  for (std::size_t stage = 0; stage < r.stages.size(); ++stage)
    take(fed.stages[stage].breakdown, r.stages[stage].breakdown);
}

std::vector<Bytes> input_on_hosts(const StepRun& run) {
  const InputSupply& supply = run.scenario.input.supply;
  const Bytes cached = std::min(supply.cache, supply.samples * supply.sample);
  std::vector<Bytes> held(static_cast<std::size_t>(run.scenario.cluster.nodes));
  for (const InputMachine::Group& group : run.machine.input->machine().groups()) {
    Bytes& node = held[group.node];
    if (node.value == 0) node = cached;
    node += run.memory.peak(group.loader);
  }
  return held;
}

/// Deals the samples of an epoch out to R replicas as a distributed sampler does: replica r gets the samples whose
/// numbers are r modulo R.
void book_shards(double samples, double replicas, Result::Input& input) {
  const double rest = std::fmod(samples, replicas);
  input.smallest_shard = (samples - rest) / replicas;
  input.largest_shard = input.smallest_shard + (rest > 0 ? 1 : 0);
  input.largest_shards = rest > 0 ? rest : replicas;
}

/// Adds the utilization of storage and decoders, and the figures of the cache.
void book_input(const StepRun& run, Result& r) {
  const InputSupply& supply = run.scenario.input.supply;
  Result::Input& input = r.input.emplace();
  const double end = run.end.end.value;
  for (const LinkId link : run.machine.input->machine().storage_links())
    input.storage_busy = std::max(input.storage_busy,
                                  run.traffic.on_link(link) / run.machine.top().links()[link].capacity / Seconds{end});
  for (const InputMachine::Group& group : run.machine.input->machine().groups()) {
    const BreakdownParts parts = run.breakdown.parts(group.loader);
    if (const auto decode = parts.work.find("decode"); decode != parts.work.end())
      input.decode_busy = std::max(input.decode_busy, decode->second / Seconds{end});
    input.read.value += run.traffic_of_steps().received(group.loader).value / run.traffic_steps();
  }
  for (const Bytes held : input_on_hosts(run)) input.host_bytes.value = std::max(input.host_bytes.value, held.value);
  input.from_cache = 1 - supply.missed;
  book_shards(supply.samples, run.scenario.plan.mesh.data, input);
}

}  // namespace trainyard
