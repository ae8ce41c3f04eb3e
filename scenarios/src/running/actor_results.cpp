// Memory, traffic and work of each rank and server, and the memory of the fullest host.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "scenarios/src/running/step_result.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

/// Returns true if two sums are equal, except for rounding. After a search for steps, some messages are under way at
/// the begin and the end of the averaged steps, so traffic is compared within kUnderWay.
bool are_equal(double a, double b, double tolerance = 1e-9) { return std::abs(a - b) <= tolerance * std::max(a, b); }
constexpr double kUnderWay = 0.1;

bool are_alike(const Result::ActorUse& a, const Result::ActorUse& b, bool is_searched) {
  const double tolerance = is_searched ? kUnderWay : 1e-9;
  return are_equal(a.memory.value, b.memory.value) && are_equal(a.sent.value, b.sent.value, tolerance) &&
         are_equal(a.received.value, b.received.value, tolerance);
}

/// Returns true if a node is fuller than another in proportion to its capacity, or absolutely if a capacity is not stated.
bool is_fuller(Bytes held, Bytes capacity, Bytes other_held, Bytes other_capacity) {
  if (capacity > Bytes{} && other_capacity > Bytes{}) return held * other_capacity.value > other_held * capacity.value;
  return held > other_held;
}

/// Memory of a node: that of all its ranks and of its input pipeline.
struct NodeMemory {
  StaticMemory host;
  Bytes activations, drive, input;
  Bytes on_host() const { return host.total() + activations + input; }
};

std::vector<NodeMemory> sum_by_node(const StepRun& run) {
  const Scenario& s = run.scenario;
  const TrainingPlan& plan = run.plan;
  std::vector<NodeMemory> nodes(static_cast<std::size_t>(s.cluster.nodes));
  if (run.machine.input) {
    const std::vector<Bytes> input = input_on_hosts(run);
    for (std::size_t n = 0; n < nodes.size(); ++n) nodes[n].input = input[n];
  }
  if (!plan.offload.copies()) return nodes;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    NodeMemory& node = nodes[s.cluster.node_of_gpu(rank)];
    const StagePlan& stage = plan.stage_of(rank);
    node.host.parameters += stage.host_memory.parameters;
    node.host.gradients += stage.host_memory.gradients;
    node.host.optimizer += stage.host_memory.optimizer;
    node.host.buffers += stage.host_memory.buffers;
    node.activations += stage.host_activations;
    node.drive += stage.drive;
  }
  return nodes;
}

}  // namespace

double work_in_step(const StepRun& run, Actor actor) {
  const bool is_rank = actor < run.plan.ranks();  // only ranks have averaged steps of their own
  const Actor seen = run.actor_of_rank(actor);
  const BreakdownParts parts = is_rank ? run.window.parts(seen) : run.breakdown.parts(seen);
  double sum = 0;
  for (const auto& [group, seconds] : parts.work) sum += seconds.value;
  return sum / (is_rank              ? run.window.own_steps(seen)
                : run.planned.search ? run.window.simulated_steps()
                                     : run.plan.steps);
}

void book_actors(const StepRun& run, Result& r) {
  if (run.scenario.plan.mechanism->ranks_alike()) return;
  const int ranks = run.plan.ranks();
  const bool is_searched = run.planned.search.has_value();
  int first = 0;  // first rank of the last group
  for (Actor actor = 0; actor < std::max(ranks, run.fold ? 0 : run.traffic.actors()); ++actor) {
    const bool has_own_steps = is_searched && actor < ranks && !run.is_synchronous();
    const double steps = has_own_steps ? run.window.own_steps(actor) : run.traffic_steps();
    const Traffic& traffic = run.traffic_of_steps();
    const Actor seen = run.actor_of_rank(actor);
    Result::ActorUse use{"",
                         1,
                         run.memory.peak(seen),
                         traffic.sent(seen) / steps,
                         traffic.received(seen) / steps,
                         Seconds{work_in_step(run, actor)}};
    if (actor >= ranks) {
      use.name = run.machine.top().actor_name(actor);
      if (use.memory.value + use.sent.value + use.received.value > 0) r.actors.push_back(use);
      continue;
    }
    if (actor > 0 && are_alike(r.actors.back(), use, is_searched)) {
      Result::ActorUse& group = r.actors.back();
      ++group.count;
      if (is_searched) {
        group.sent.value += (use.sent.value - group.sent.value) / group.count;
        group.received.value += (use.received.value - group.received.value) / group.count;
      }
      group.work.value += (use.work.value - group.work.value) / group.count;
      group.name = fmt::format("ranks {}-{}", first, actor);
      continue;
    }
    first = actor;
    use.name = fmt::format("rank {}", actor);
    r.actors.push_back(use);
  }
}

void book_host_memory(const StepRun& run, Result& r) {
  if (!run.plan.offload.copies() && !run.machine.input) return;
  const std::vector<NodeMemory> nodes = sum_by_node(run);
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const NodeType& type = run.scenario.cluster.type_of(static_cast<int>(n));
    const StaticMemory& host = nodes[n].host;
    const Bytes capacity = type.host_memory, drives = type.nvme.capacity * type.nvme.count;
    const Bytes held = nodes[n].on_host();
    if (n == 0 || is_fuller(held, capacity, r.host_memory.peak, r.host_memory.capacity))
      r.host_memory = {{held, host.parameters, host.gradients, host.optimizer, nodes[n].activations, host.buffers},
                       capacity,
                       nodes[n].input,
                       static_cast<int>(n)};
    if (n == 0 || is_fuller(nodes[n].drive, drives, r.drive.peak, r.drive.capacity))
      r.drive = {drives, nodes[n].drive, static_cast<int>(n)};
  }
  const auto holds = [](Bytes capacity, Bytes peak) { return capacity == Bytes{} || peak <= capacity; };
  r.fits = r.fits && holds(r.host_memory.capacity, r.host_memory.peak) && holds(r.drive.capacity, r.drive.peak);
}

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
/// for a peer's gradients may in truth wait for the peer's samples. A rank that waits for its own samples may have
/// posted a receive, and then seems to wait for a peer.
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
