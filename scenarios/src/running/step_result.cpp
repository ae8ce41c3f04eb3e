#include "scenarios/src/running/step_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/reading/plan_choice.hpp"
#include "scenarios/src/running/fullest_rank.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/step/compute_phase.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {

void book_critical_path(const StepRun& run, const std::map<std::string, double>& path, Result& r) {
  if (path.empty()) return;
  double sum = 0;
  for (const auto& [resource, seconds] : path) sum += seconds / run.steps();  // `path` is over all steps
  // A path that was summed up goes to the end of the run, a little beyond the operation that ends a drawn step.
  if (run.planned.search && !run.records() && std::abs(sum - r.step_time.value) > 1e-7 * r.step_time.value) return;
  // Times that are equal except for rounding leave gaps.
  if (std::abs(sum - r.step_time.value) > 1e-7 * r.step_time.value)
    throw InternalError(fmt::format("the critical path takes {} s, the step {} s", sum, r.step_time.value));
  for (const auto& [resource, seconds] : path)
    r.critical_path[resource] += seconds / run.steps() * (r.step_time.value / sum);
  const auto [seconds, resource] = r.shares().front();
  r.bottleneck = resource;
  r.bottleneck_share = seconds / r.step_time.value;
}

namespace {

/// Ratio of the FLOPs that the backward pass computes again to those of the forward pass: its kernels with the names of
/// forward kernels are recomputation.
double recomputed_share(const Network& network) {
  Flops again;
  for (const Layer& layer : network.layers)
    for (const BackwardKernel& kernel : layer.backward)
      if (std::ranges::any_of(layer.forward, [&kernel](const KernelCall& call) { return call.name == kernel.name; }))
        again += kernel.work.flops;
  return again.value / network.forward_flops().value;
}

/// `recomputed`: share of the forward pass that is computed again.
void book_rates(const Scenario& s, double recomputed, Result& r) {
  const double samples = static_cast<double>(s.global_batch_size);
  const double tokens = samples * static_cast<double>(s.network.tokens_per_sample);
  const double micro_batches = samples / static_cast<double>(s.network.samples);
  // Rows that experts drop are no work: each saves 2 FLOPs forward and 4 backward for each weight.
  double dropped = 0;
  for (const Layer& layer : s.network.layers)
    for (const ParameterTensor& tensor : layer.parameters)
      if (tensor.expert)
        dropped += 6 * tensor.elements * tensor.active_share * tokens * (1 - rows_within_capacity(s.plan.sharding));
  const double forward = s.network.forward_flops().value, both = forward + s.network.backward_flops().value;
  // A forward pass has a third of a training's FLOPs: 2 of 6 per parameter and token (4 of 12 in attention).
  const double part = s.plan.inference ? 1.0 / 3 : 1;
  const double executed = (s.plan.inference ? forward : both + recomputed * forward) * micro_batches - dropped * part;
  const double model = (s.network.model_flops_per_token().value * tokens - dropped) * part;
  double peak = 0;
  for (int rank = 0; rank < s.ranks(); ++rank)
    peak += s.cluster.type_of_gpu(rank).gpu.peak[static_cast<std::size_t>(s.precision)].value;
  r.samples_per_s = samples / r.step_time.value;
  if (s.network.tokens_per_sample > 1) r.tokens_per_s = tokens / r.step_time.value;  // images have no tokens
  r.tokens_per_s_per_gpu = r.tokens_per_s / s.ranks();
  r.tflops_per_gpu = model / r.step_time.value / s.ranks() * 1e-12;
  r.mfu = model / r.step_time.value / peak;
  if (const double attention = s.network.attention_flops_per_token().value * tokens * part; attention > 0)
    r.mfu_with_attention = (model + attention) / r.step_time.value / peak;
  r.hfu = executed / r.step_time.value / peak;
}

/// Returns true if a group belongs to loaders, which read and copy samples. No rank spends time in it.
bool is_of_loaders(const StepRun& run, const std::string& group) {
  return run.machine.input && (group == kReadGroup || group == kCopyGroup);
}

void book_breakdown(const StepRun& run, Actor last, Result& r) {
  const BreakdownParts parts = run.window.parts(run.actor_of_rank(last));
  const double steps = run.window.own_steps(run.actor_of_rank(last));
  r.breakdown.step_time.value = run.is_synchronous() ? r.step_time.value : parts.total.value / steps;
  const auto seconds_of = [&parts, steps](const char* group) {
    const auto entry = parts.work.find(group);
    return entry == parts.work.end() ? 0.0 : entry->second.value / steps;
  };
  r.breakdown.compute.value = seconds_of("compute");
  r.breakdown.optimizer.value = seconds_of("optimizer");
  r.breakdown.compression.value = seconds_of(kCompressionGroup);
  for (const auto& [group, seconds] : parts.exposed)
    if (group == kInputGroup)
      r.breakdown.input = seconds / steps;
    else if (!is_of_loaders(run, group))
      r.breakdown.exposed_communication[group] = seconds.value / steps;
  r.breakdown.bubble = parts.bubble / steps;
  r.breakdown.framework.value = seconds_of("framework") + parts.host_wait.value / steps;
  r.breakdown.other = parts.other / steps;
  r.breakdown.joining = parts.all_joining() / steps;
  r.breakdown.rank = last;
}

/// Calls `visit` with each part of a breakdown.
template <class Visit>
void for_each_part(Result::Breakdown& b, Visit visit) {
  for (auto& [group, seconds] : b.exposed_communication) visit(seconds);
  for (double* part : {&b.compute.value, &b.compression.value, &b.bubble.value, &b.optimizer.value, &b.input.value,
                       &b.framework.value, &b.other.value})
    visit(*part);
}

/// Returns the breakdown of a rank, whose parts sum to the step. The time in which the rank waits for the last actor is
/// bubble. If the rank's own mean step is longer than that of the last rank, the parts are scaled down. If workers are
/// not in step, each has its own step time.
Result::Breakdown whole_step_of(const StepRun& run, Actor rank, double step_time) {
  Result result;
  result.step_time.value = step_time;
  book_breakdown(run, rank, result);
  Result::Breakdown& b = result.breakdown;
  double sum = 0;
  for_each_part(b, [&sum](double& part) { sum += part; });
  if (std::abs(sum - b.step_time.value) <= 1e-12 * b.step_time.value) return b;
  if (sum > b.step_time.value) {
    const double factor = b.step_time.value / sum;
    for_each_part(b, [factor](double& part) { part *= factor; });
    b.joining = b.joining * factor;
  } else
    b.bubble.value += b.step_time.value - sum;
  return b;
}

Result::StageMemory memory_of(const StepRun& run, Actor rank) {
  const Actor actor = run.actor_of_rank(rank);
  return {peak_memory(run.memory.peak(actor), run.memory.parts_at_peak(actor)), rank};
}

/// Adds for each pipeline stage the time of the last rank to finish and the memory of the fullest rank.
void book_stages(const Scenario& s, const StepRun& run, Result& r) {
  const Mesh& mesh = s.plan.mesh;
  if (mesh.pipeline == 1) return;
  std::vector<Actor> fullest(static_cast<std::size_t>(mesh.pipeline), -1), last = fullest;
  for (Actor rank = 0; rank < s.ranks(); ++rank) {
    const auto stage = static_cast<std::size_t>(mesh.coordinates(rank).pipeline);
    const auto peak = [&run](Actor actor) { return run.memory.peak(run.actor_of_rank(actor)); };
    const auto end = [&run](Actor actor) { return run.window.end(run.actor_of_rank(actor)); };
    if (fullest[stage] < 0 || peak(rank) > peak(fullest[stage])) fullest[stage] = rank;
    if (last[stage] < 0 || end(rank) > end(last[stage])) last[stage] = rank;
  }
  for (std::size_t stage = 0; stage < last.size(); ++stage) {
    int layers = 0;
    for (const std::vector<int>& chunk : run.plan.stages[stage].chunks) layers += static_cast<int>(chunk.size());
    r.stages.push_back({layers, whole_step_of(run, last[stage], r.step_time.value), memory_of(run, fullest[stage])});
  }
}

/// With a pipeline, takes the breakdown of the stage that waits least, because the others wait for it. If several wait
/// as little, takes the one that ends last.
void take_busiest_stage(const StepRun& run, Result& r) {
  if (r.stages.empty() || !run.is_synchronous()) return;
  const auto busy = [&r](std::size_t stage) { return r.step_time.value - r.stages[stage].breakdown.bubble.value; };
  auto busiest = static_cast<std::size_t>(run.plan.mesh.coordinates(r.breakdown.rank).pipeline);
  for (std::size_t stage = 0; stage < r.stages.size(); ++stage)
    if (busy(stage) > busy(busiest) + 1e-9 * r.step_time.value) busiest = stage;
  r.breakdown = r.stages[busiest].breakdown;
}

/// Peak memory of a rank's GPU. Other actors on the GPU count with their peaks, because they hold them all the time.
struct HeldOnGpu {
  Bytes peak;
  MemoryUse::ByClass parts;
};
HeldOnGpu held_on_gpu(const StepRun& run, Actor rank) {
  HeldOnGpu held{run.memory.peak(run.actor_of_rank(rank)), run.memory.parts_at_peak(run.actor_of_rank(rank))};
  for (const Actor other : run.machine.others_on(rank)) {
    held.peak += run.memory.peak(other);
    const MemoryUse::ByClass parts = run.memory.parts_at_peak(other);
    for (std::size_t c = 0; c < parts.size(); ++c) held.parts[c] += parts[c];
  }
  return held;
}

void book_memory(const Scenario& s, const StepRun& run, Result& r) {
  std::vector<RankMemory> ranks;  // one of each class
  for (Actor actor = 0; actor < run.simulated_ranks(); ++actor) {
    const Actor rank = run.rank_of(actor);
    const HeldOnGpu held = held_on_gpu(run, rank);
    ranks.push_back({rank, held.peak, held.parts});
  }
  book_fullest(s, run.plan, ranks, r);
  book_host_memory(run, r);
  book_stages(s, run, r);
}

/// Returns the most bytes that one actor sends; with offload, that one rank sends, because actors of hosts serve
/// several ranks.
Bytes most_sent(const StepRun& run) {
  if (!run.plan.offload.copies()) return run.traffic_of_steps().most_sent();
  Bytes most;
  for (Actor rank = 0; rank < run.plan.ranks(); ++rank)
    most = std::max(most, run.traffic_of_steps().sent(run.actor_of_rank(rank)));
  return most;
}

/// Returns the time of a step of all workers. If they are not in step, it is the time of as many steps as there are
/// workers.
double step_time_of(const StepRun& run) {
  if (run.is_synchronous()) return (run.end_of_steps() - run.begin()) / run.steps();
  return (run.window.end() - run.window.begin()).value / run.steps();
}

void book_training(const Scenario& s, Result& r) {
  r.training_steps = s.training.time.value > 0 ? std::floor(s.training.time.value / r.step_time.value * (1 + 1e-12))
                                               : s.training.steps;
  r.training_time.value = s.training.time.value > 0 ? s.training.time.value : s.training.steps * r.step_time.value;
}

void book_mechanism(const StepRun& run, Result& r) {
  r.steps = run.window.steps();
  r.warm_steps = run.window.warm_steps();
  if (const auto& state = run.window.state(); state && state->half_width() < HUGE_VAL)
    r.step_time_interval = Seconds{state->half_width()};
  MechanismFigures figures;
  run.scenario.plan.mechanism->add_figures(figures, run.plan, r.steps);
  run.mechanism->add_figures(
      figures, {.warm = r.warm_steps,
                .steps = r.steps,
                .found = run.window.state().has_value(),
                .parts = [&run](Actor worker) { return run.window.parts(run.actor_of_rank(worker)); },
                .own_steps = [&run](Actor worker) { return run.window.own_steps(run.actor_of_rank(worker)); },
                .work = [&run](Actor actor) { return work_in_step(run, actor); },
                .step = r.step_time});
  r.servers = figures.servers;
  r.replicas = figures.replicas;
  r.staleness = figures.staleness;
  r.samples_per_s *= figures.taught_share;  // late gradients teach nothing
}

/// Adds the loads of expert ranks, and how long ranks wait for busier ones of their group.
void book_expert_load(const StepRun& run, Result& r) {
  const std::vector<double> rows = unequal_expert_loads(run.plan.sharding);
  if (rows.empty()) return;
  const auto [least, most] = std::ranges::minmax_element(rows);
  Result::ExpertLoad& load = r.expert_load.emplace();
  load.most = *most;
  load.least = *least;
  const GroupId group_of_rows = run.mechanism->tables().words().lane[static_cast<std::size_t>(Lane::expert)];
  const std::string& name = run.names.groups()[group_of_rows].name;
  std::map<Actor, double> exposed;
  const auto exposed_of = [&](Actor rank) {
    const Actor actor = run.actor_of_rank(rank);
    const auto [at, fresh] = exposed.try_emplace(actor, 0);
    if (fresh) {
      BreakdownParts parts = run.window.parts(actor);
      at->second = (parts.exposed[name] + parts.joining[name]).value / run.window.own_steps(actor);
    }
    return at->second;
  };
  for (const LaneGroup& group : run.plan.lane(Lane::expert).groups) {
    double shortest = exposed_of(group.members.front());
    for (const int rank : group.members) shortest = std::min(shortest, exposed_of(rank));
    for (const int rank : group.members) {
      load.longest_wait.value = std::max(load.longest_wait.value, exposed_of(rank) - shortest);
      load.mean_wait.value += (exposed_of(rank) - shortest) / run.scenario.ranks();
    }
  }
}

void book_all_reduce(const Scenario& s, const Plan& plan, Result& r) {
  if (s.ranks() > 1 && s.plan.mechanism->all_reduces() && !s.plan.inference) {
    r.all_reduce.averages_parameters = s.plan.mechanism->averages_parameters();
    const GradientCollective collective = gradient_collective(plan);
    r.all_reduce.algorithm = all_reduce_name(plan.all_reduce);
    if (!collective.method.empty()) r.all_reduce.algorithm += ", " + collective.method;
    r.all_reduce.fidelity = name_of(plan.all_reduce.settings.fidelity);
    r.all_reduce.channels = collective.channels;
  }
  if (!plan.tuned) return;
  for (const Tuning::Candidate& c : plan.tuned->candidates)
    r.all_reduce.tuned.push_back({c.algorithm->name, c.channels, plan.tuned->size, Seconds{c.seconds}});
}

void book_compression(const StepRun& run, Result& r) {
  if (!run.plan.compression) return;
  const Actor rank = r.breakdown.rank;
  const int stage = run.plan.mesh.coordinates(rank).pipeline;
  const CompressedBytes bytes = compressed_bytes(run.plan, stage);
  r.compression = {run.plan.compression->summary(), bytes.dense, bytes.sent, {}, {}};
  const auto add = [&](double& sum, const std::vector<Op>& kernels) {
    for (const Op& op : kernels) sum += run.machine.top().price(op.work, rank).duration.value;
  };
  for (std::size_t b = 0; b < run.plan.stages[static_cast<std::size_t>(stage)].buckets.size(); ++b) {
    const CompressedBucket& bucket = run.mechanism->tables().compression().bucket(stage, b, 0);
    for (const CompressedBucket::Round& round : bucket.rounds) add(r.compression.encode.value, round.kernels);
    if (run.scenario.plan.mechanism->servers() == 0)
      add(r.compression.decode.value, bucket.decode);  // else servers decode
  }
}

/// Returns the kind of data that the messages of a group of the breakdown carry.
std::string content_of(const std::string& group) {
  static const std::map<std::string, std::vector<std::string>> contents{
      {"activations",
       {"tensor parallel", "context parallel", "expert parallel", "expert tensor parallel", "pipeline",
        "remote embedding"}},
      {"gradients",
       {"all-reduce", "compressed gradients", "reduce-scatter of gradients", "gradients of experts",
        "all-reduce over copies", "tied weight", "gradients"}},
      {"weights", {"all-gather of parameters", "broadcast of parameters", "parameters", "gossip"}},
      {"samples", {"inputs and outputs", kReadGroup, kCopyGroup, kInputGroup}}};
  for (const auto& [content, groups] : contents)
    if (std::ranges::find(groups, group) != groups.end()) return content;
  return group;
}

void book_content(const StepRun& run, Result& r) {
  const std::vector<Group>& groups = run.names.groups();
  for (GroupId g = 0; g < groups.size(); ++g)
    if (const double bytes = run.traffic_of_steps().of_group(g).value; bytes > 0) {
      const bool averages = run.scenario.plan.mechanism->averages_parameters() && groups[g].name == kAllReduce;
      r.bytes_by_content[averages ? "weights" : content_of(groups[g].name)] += bytes / run.traffic_steps();
    }
}

}  // namespace

Result prescribed_result(const Scenario& s) {
  Result r;
  r.scenario = s.name;
  r.ranks = r.simulated_ranks = s.ranks();
  r.idle_devices = idle_devices(s.plan, s.cluster);
  r.step_time = s.prescribed_step.time;
  r.step_time_source = s.prescribed_step.source;
  book_training(s, r);
  book_rates(s, 0, r);
  return r;
}

Result result_of(const StepRun& run) {
  const Scenario& s = run.scenario;
  Result r;
  r.scenario = s.name;
  r.ranks = r.simulated_ranks = s.ranks();
  r.idle_devices = idle_devices(s.plan, s.cluster);
  r.step_time.value = step_time_of(run);
  if (s.measured.is_given()) r.measured = {s.measured.step_time(s.micro_batch_size), s.measured.source};
  book_training(s, r);
  book_all_reduce(s, run.planned, r);
  r.operations = static_cast<std::uint64_t>(run.operations());
  r.messages = static_cast<std::uint64_t>(run.traffic.messages());
  r.simulated_ranks = run.simulated_ranks();
  r.unfolded_reason = run.unfolded_reason;
  if (run.full_pods) {
    r.full_pods = run.full_pods->in_words();
    r.estimate_error = run.full_pods->most_error();
  }
  if (run.shared_draws) {
    if (run.shared_draws->is_estimate()) r.estimate_error = run.shared_draws->most_error();
    const int warm = run.window.warm_steps();
    r.shared_draws = run.shared_draws->in_words();
    if (run.planned.search)
      r.drawn_steps = run.shared_draws->further_draws(r.step_time.value, warm, warm + run.window.steps());
  }
  r.late_by_look_ahead = run.end.late_by_look_ahead;
  book_rates(s, recomputed_share(*run.plan.network), r);
  book_mechanism(run, r);
  book_expert_load(run, r);
  r.breakdown = whole_step_of(run, run.last(), r.step_time.value);
  book_memory(s, run, r);
  take_busiest_stage(run, r);
  book_compression(run, r);
  book_host_calls(run, r);
  book_actors(run, r);
  book_critical_path(run, by_resource(named_path(run)), r);
  if (run.machine.input) book_input(run, r);
  book_energy(run, r);
  for (const Link& link : run.machine.top().links()) r.bytes_by_link_kind.try_emplace(link.kind, 0);
  for (const auto& [kind, bytes] : run.traffic_of_steps().by_link_kind())
    r.bytes_by_link_kind[kind] = bytes.value / run.traffic_steps();
  book_content(run, r);
  r.busiest_link =
      run.traffic_of_steps().busiest(run.planned.search ? run.window.end() - run.window.begin() : run.end.end);
  // A share may exceed 1: a message counts when it arrives, and may have begun before the averaged steps.
  for (auto& [kind, share] : r.busiest_link) share = std::min(1.0, share);
  r.bytes_sent_per_rank_max = most_sent(run) / run.traffic_steps();
  r.bytes_total = run.traffic_of_steps().total() / run.traffic_steps();
  return r;
}

void book_host_calls(const StepRun& run, Result& r) {
  if (!run.host_calls) return;
  const Actor rank = r.breakdown.rank;
  const HostCallCount::Calls& calls = run.host_calls->calls(run.actor_of_rank(rank));
  const double steps = run.plan.steps;
  Result::HostCalls& host = r.host_calls.emplace();
  host.rank = rank;
  host.compiled = run.scenario.cluster.type_of_gpu(rank).gpu.kind == ChipKind::tpu;
  host.kernels = calls.kernels / steps;
  host.exchanges = calls.exchanges / steps;
  host.copies = calls.copies / steps;
  host.all = host.compiled ? 1 + calls.through_adapters / steps + host.copies
                           : calls.launches / steps + host.exchanges + host.copies;
}

}  // namespace trainyard
