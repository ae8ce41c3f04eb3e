#include "scenarios/simulate.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/central_plans.hpp"
#include "scenarios/input_run.hpp"
#include "scenarios/offload.hpp"
#include "scenarios/server_plans.hpp"
#include "scenarios/size.hpp"
#include "scenarios/steady_window.hpp"
#include "scenarios/step_picture.hpp"
#include "scenarios/training_plans.hpp"
#include "sim/breakdown.hpp"
#include "sim/child.hpp"
#include "sim/output.hpp"
#include "sim/progress.hpp"
#include "sim/simulation.hpp"
#include "sim/timeline.hpp"
#include "sim/trace.hpp"
#include "sim/traffic.hpp"
#include "strategies/training_program.hpp"
#include "topologies/straggler_machine.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

/// Traces and pictures need every operation and every change of memory.
bool keeps_all(const SimulateOptions& options) { return !options.trace.empty() || !options.picture.empty(); }

void require_rank(const Scenario& s, int rank) {
  if (rank < 0 || rank >= s.ranks())
    throw UserError(fmt::format("--rank {}: the scenario has ranks 0 to {}", rank, s.ranks() - 1));
}

/// A trace of many ranks is larger than anything that opens it.
void require_traceable(const Scenario& s, const SimulateOptions& options) {
  if (options.trace.empty()) return;
  double ranks = s.ranks();
  if (options.trace_ranks) {
    const auto [first, last] = *options.trace_ranks;
    if (first < 0 || last < first || last >= s.ranks())
      throw UserError(fmt::format("--trace-ranks {}-{}: the scenario has ranks 0 to {}", first, last, s.ranks() - 1));
    ranks = last - first + 1;
  }
  const double operations = estimated_operations(s) * ranks / s.ranks();
  if (operations <= kMostOfTrace) return;
  const int most = static_cast<int>(kMostOfTrace * ranks / operations);
  throw UserError(fmt::format(
      "--trace {}: a trace of about {:.2g} million operations of {} ranks, some {:.2g} GB; at most {:.0f} million are "
      "written. {}",
      options.trace.string(), operations * 1e-6, ranks, operations * 200e-9, kMostOfTrace * 1e-6,
      most > 0 ? fmt::format("Fewer ranks do: --trace-ranks 0-{}", most - 1)
               : std::string("Fewer layers or micro-batches do")));
}

/// Everything of one simulated step.
struct Run {
  Names names;
  ClusterMachine cluster;
  std::unique_ptr<PlacedServers> servers;
  std::unique_ptr<PlacedMachine> placed;
  std::optional<InputRun> input;
  StragglerMachine machine;
  std::unique_ptr<ServerBoard> board;
  Breakdown breakdown;
  Traffic traffic;
  MemoryUse memory;
  Timeline timeline;
  Progress progress;
  SteadyWindow window;
  SimulationResult end;
  TrainingPlan plan;
  std::vector<std::string> streams;
  bool records = true;   // every operation
  bool central = false;  // nothing is all-reduced

  Run(const Scenario& s, const SimulateOptions& options)
      : cluster(upgraded(s.cluster, with_drives(s.input.supply, options.upgrade)),
                upgraded(s.software, options.upgrade)),
        servers(servers_of(s, cluster, upgraded(s.software, options.upgrade))),
        placed(servers ? std::make_unique<PlacedMachine>(cluster, servers->actors) : nullptr),
        input(input_run(s, cluster, options.upgrade)),
        machine(placed  ? static_cast<Machine&>(*placed)
                : input ? static_cast<Machine&>(input->machine())
                        : cluster,
                s.slow.stragglers, s.plan.ranks),
        breakdown(names),
        traffic(machine.links()),
        memory(keeps_all(options)),
        window(breakdown, names.intern(kStepOver), s.warm_steps, s.plan.steps) {
    cluster.scale_compute(s.compute_scale);
    const SoftwareStack stack = upgraded(s.software, options.upgrade);
    const CentralPlan in_center = central_plan(s, cluster, stack);
    central = in_center.used() || servers;
    plan = servers            ? servers->plan.base.step
           : in_center.used() ? in_center.step
                              : prepared_plan(s, upgraded(s.cluster, options.upgrade), stack);
    attach_host_ways(plan.offload, plan.ranks(), cluster, s.parallel.offload.place);
    plan.steps += s.warm_steps;
    plan.marks_steps = s.warm_steps > 0;
    // Where workers are not in step there is no path that is a step's.
    const bool path = options.critical_path && (!servers || in_step()) && estimated_operations(s) <= kMostOfPath;
    records = keeps_all(options) || path;
    if (input) input->feed(plan);
    if (!records && s.parallel.any()) plan.first_fused = kFirstFused;
    const PassTables tables(plan, names);
    cluster.fuse(tables.fused().runs());
    const TrainingStreams used(plan);
    streams = servers ? server_streams(servers->plan) : central ? central_streams(in_center) : used.names();
    const std::optional<CentralWords> words = central ? std::optional<CentralWords>(names) : std::nullopt;
    Simulation simulation(machine, options.transport);
    if (servers) {
      const ServerPlan& all = servers->plan;
      board = std::make_unique<ServerBoard>(all.workers(), all.workers() - all.backup_workers, plan.steps, all.keys());
      for (Actor actor = 0; actor < all.actors(); ++actor)
        simulation.add(actor, server_program(actor, all, tables, *words, *board));
    }
    for (const Actor actor : in_center.actors())
      if (in_center.used()) simulation.add(actor, central_program(actor, in_center, tables, *words));
    for (int rank = 0; rank < plan.ranks() && !central; ++rank)
      simulation.add(rank, training_program(rank, plan, tables, used));
    for (const LinkChange& change : link_changes(s.slow, machine.links())) simulation.change(change);
    if (input) input->add_programs(simulation, plan.ranks(), names);
    simulation.observe(breakdown);
    if (plan.marks_steps) simulation.observe(window);
    simulation.observe(traffic);
    simulation.observe(memory);
    if (records) simulation.observe(timeline);
    if (options.progress) simulation.observe(progress);
    end = simulation.run();
    traffic.check(end.end);
  }

  /// Of the steps that are looked at: when they began, for the rank that ends last, and how many they are.
  double begin() const { return window.begin(breakdown.last()).value; }
  double end_of_steps() const { return plan.marks_steps ? window.end(breakdown.last()).value : end.end.value; }
  double steps(const Scenario& s) const { return plan.steps - s.warm_steps; }
  bool on_host(Actor actor) const { return (placed ? placed->place(actor) : actor) >= cluster.spec().gpus(); }
  /// All workers do each step together.
  bool in_step() const {
    return servers->plan.consistency == Consistency::synchronous && servers->plan.backup_workers == 0;
  }

 private:
  static std::unique_ptr<PlacedServers> servers_of(const Scenario& s, const ClusterMachine& on,
                                                   const SoftwareStack& stack) {
    if (s.parallel.mechanism != Mechanism::parameter_server) return nullptr;
    return std::make_unique<PlacedServers>(placed_servers(s, on, stack));
  }
  static std::optional<InputRun> input_run(const Scenario& s, ClusterMachine& machine, const Upgrade& upgrade) {
    if (!s.input.used()) return std::nullopt;
    return std::optional<InputRun>(std::in_place, s.input, s.parallel.mesh, s.micro_batch_size, machine, upgrade);
  }
};

std::string resource_name(const std::string& r) {
  if (r == "compute") return "GPU compute";
  if (r == "memory") return "GPU memory";
  if (r == "delay") return "framework";
  if (r == kOwnLimit) return kLibraryLimit;
  return r;
}

/// What work on the path is bound by, of actors that are no GPU: a server's sums and updates, decoding.
void name_host_work(const Run& run, PathStep& step) {
  const Actor actor = run.timeline.records()[step.id - 1].actor;
  if (step.resource == "memory" && (run.input ? actor >= run.plan.ranks() : run.on_host(actor)))
    step.resource = "host memory";
  if (step.resource == "compute" && run.input && actor >= run.plan.ranks()) step.resource = "decoding";
}

void book_critical_path(const Scenario& s, const Run& run, Result& r) {
  if (run.servers && !run.in_step()) return;
  std::vector<PathStep> path = critical_path(run.timeline, run.machine.links());
  if (path.empty()) return;
  for (PathStep& step : path) {
    name_host_work(run, step);
    step.begin = std::clamp(step.begin, run.begin(), run.end_of_steps());
    step.end = std::clamp(step.end, run.begin(), run.end_of_steps());
  }
  double sum = 0;
  for (const auto& [resource, seconds] : by_resource(path)) {  // of all steps
    r.critical_path[resource_name(resource)] += seconds / run.steps(s);
    sum += seconds / run.steps(s);
  }
  if (std::abs(sum - r.step_time) > 1e-9 * r.step_time)
    throw InternalError(fmt::format("the critical path takes {} s, the step {} s", sum, r.step_time));
  for (const auto& [resource, seconds] : r.critical_path)
    if (seconds / r.step_time > r.bottleneck_share) {
      r.bottleneck = resource;
      r.bottleneck_share = seconds / r.step_time;
    }
}

void book_rates(const Scenario& s, Result& r) {
  const double samples = static_cast<double>(s.global_batch_size);
  const double tokens = samples * static_cast<double>(s.network.tokens_per_sample);
  const double micro_batches = samples / static_cast<double>(s.network.samples);
  // Rows that experts drop are no work: 2 FLOPs forward and 4 backward for each weight that they would have met.
  double dropped = 0;
  for (const Layer& layer : s.network.layers)
    for (const ParameterTensor& tensor : layer.parameters)
      if (tensor.expert)
        dropped += 6 * tensor.elements * tensor.active_share * tokens * (1 - rows_within_capacity(s.parallel.sharding));
  const double executed = (s.network.forward_flops() + s.network.backward_flops()).value * micro_batches - dropped;
  const double model = s.network.model_flops_per_token().value * tokens - dropped;
  double peak = 0;
  for (int rank = 0; rank < s.plan.ranks; ++rank)
    peak += s.cluster.type_of_gpu(rank).gpu.peak[static_cast<std::size_t>(s.precision)].value;
  r.samples_per_s = samples / r.step_time;
  r.tokens_per_s = tokens / r.step_time;
  r.tokens_per_s_per_gpu = r.tokens_per_s / s.plan.ranks;
  r.tflops_per_gpu = model / r.step_time / s.plan.ranks * 1e-12;
  r.mfu = model / r.step_time / peak;
  r.hfu = executed / r.step_time / peak;
}

/// Reading and copying are the loaders': no rank has time in them.
bool is_of_loaders(const Run& run, const std::string& group) {
  return run.input && (group == kReadGroup || group == kCopyGroup);
}

void book_breakdown(const Scenario& s, const Run& run, Result& r) {
  const Actor last = run.breakdown.last(static_cast<std::size_t>(r.ranks));
  const BreakdownParts parts = run.window.parts(run.servers ? last : run.breakdown.last());
  // Out of step a worker's own mean step is brought to that of all.
  const double steps = run.servers && !run.in_step() ? parts.total.value / r.step_time : run.steps(s);
  const auto of = [steps](const auto& map, const char* key) {
    const auto at = map.find(key);
    return at == map.end() ? 0.0 : at->second.value / steps;
  };
  r.breakdown.compute = of(parts.work, "compute");
  r.breakdown.optimizer = of(parts.work, "optimizer");
  for (const auto& [group, seconds] : parts.exposed)
    if (group == kInputGroup)
      r.breakdown.input = seconds.value / steps;
    else if ((group != "all-reduce" || !run.central) && !is_of_loaders(run, group))
      r.breakdown.exposed_communication[group] = seconds.value / steps;
  r.breakdown.bubble = parts.bubble.value / steps;
  r.breakdown.framework = of(parts.work, "framework");
  r.breakdown.other = parts.other.value / steps;
  r.breakdown.rank = run.servers ? last : run.breakdown.last();
}

/// The fullest rank of each pipeline stage.
void book_stages(const Scenario& s, const Run& run, Result& r) {
  const Mesh& mesh = s.parallel.mesh;
  if (mesh.pipeline == 1) return;
  r.memory.stage = mesh.of(r.memory.rank).pipeline;
  std::vector<Actor> fullest(static_cast<std::size_t>(mesh.pipeline), -1);
  for (Actor rank = 0; rank < s.plan.ranks; ++rank) {
    Actor& best = fullest[static_cast<std::size_t>(mesh.of(rank).pipeline)];
    if (best < 0 || run.memory.peak(rank) > run.memory.peak(best)) best = rank;
  }
  for (const Actor rank : fullest) {
    const MemoryUse::ByClass parts = run.memory.parts_at_peak(rank);
    const auto of = [&parts](MemoryClass c) { return parts[static_cast<std::size_t>(c)]; };
    r.stages.push_back({rank, run.memory.peak(rank).value, of(MemoryClass::parameters), of(MemoryClass::gradients),
                        of(MemoryClass::optimizer), of(MemoryClass::activations), of(MemoryClass::buffers)});
  }
}

void book_memory(const Scenario& s, const Run& run, Result& r) {
  // Of GPUs that differ, the one that is fullest.
  const auto capacity = [&s](Actor actor) { return s.cluster.type_of_gpu(actor).gpu.memory_capacity; };
  Actor rank = 0;
  for (Actor other = 1; other < s.plan.ranks; ++other)
    if (run.memory.peak(other) / capacity(other) > run.memory.peak(rank) / capacity(rank)) rank = other;
  const MemoryUse::ByClass parts = run.memory.parts_at_peak(rank);
  const auto of = [&parts](MemoryClass c) { return parts[static_cast<std::size_t>(c)]; };
  r.memory = {capacity(rank).value,
              run.memory.peak(rank).value,
              of(MemoryClass::parameters),
              of(MemoryClass::gradients),
              of(MemoryClass::optimizer),
              of(MemoryClass::activations),
              of(MemoryClass::buffers),
              rank,
              0};
  r.fits = r.memory.peak <= r.memory.capacity;
  book_host_memory(s, run.plan, r);
  book_stages(s, run, r);
}

/// By one actor; with offload by one rank, since the hosts' actors stand for several.
Bytes most_sent(const Run& run) {
  if (!run.plan.offload.used()) return run.traffic.most_sent();
  Bytes most;
  for (Actor rank = 0; rank < run.plan.ranks(); ++rank) most = std::max(most, run.traffic.sent(rank));
  return most;
}

/// Time of a step of all workers: where they are not in step, of as many steps as there are workers.
double step_time_of(const Scenario& s, const Run& run) {
  if (!run.servers || run.in_step()) return (run.end_of_steps() - run.begin()) / run.steps(s);
  const ServerPlan& plan = run.servers->plan;
  if (plan.consistency == Consistency::synchronous) return run.board->last_update().value / run.plan.steps;
  return plan.workers() / run.board->steps_per_s();
}

/// What workers wait for in a step, one by one taken together.
void book_servers(const Run& run, Result& r) {
  if (!run.servers) return;
  const ServerPlan& plan = run.servers->plan;
  r.servers.workers = plan.workers();
  r.servers.servers = plan.servers;
  r.servers.consistency = consistency_names()[static_cast<std::size_t>(plan.consistency)];
  std::vector<double> held(static_cast<std::size_t>(plan.servers));
  for (std::size_t k = 0; k < plan.keys(); ++k) held[static_cast<std::size_t>(plan.server_of[k])] += plan.share_of(k);
  r.servers.largest_share = *std::max_element(held.begin(), held.end());
  r.servers.staleness = run.board->staleness();
  std::uint64_t applied = 0;
  for (const auto& [of, count] : r.servers.staleness) applied += count;
  const auto dropped = static_cast<double>(run.board->dropped_pushes());
  r.servers.dropped_share = dropped / (dropped + static_cast<double>(applied));
  const char* others = plan.consistency == Consistency::synchronous ? "barrier"
                       : plan.consistency == Consistency::stale     ? "staleness bound"
                                                                    : "server";
  for (Actor worker = 0; worker < plan.workers(); ++worker) {
    const BreakdownParts parts = run.breakdown.parts(worker);
    const double each = plan.workers() * static_cast<double>(run.plan.steps);
    r.servers.waits["pull"] += parts.exposed.at("parameters").value / each;
    r.servers.waits["push"] += parts.exposed.at("gradients").value / each;
    r.servers.waits[others] += parts.bubble.value / each;
  }
  // Late gradients teach nothing.
  r.samples_per_s *= static_cast<double>(plan.workers() - plan.backup_workers) / plan.workers();
}

void book_training(const Scenario& s, Result& r) {
  r.training_steps =
      s.training.time.value > 0 ? std::floor(s.training.time.value / r.step_time * (1 + 1e-12)) : s.training.steps;
  r.training_time = s.training.time.value > 0 ? s.training.time.value : s.training.steps * r.step_time;
}

/// Of a step that was said: its rates, and nothing that only a simulation knows.
Result said_result(const Scenario& s) {
  Result r;
  r.scenario = s.name;
  r.ranks = s.plan.ranks;
  r.step_time = s.said_step.time.value;
  r.said_step = s.said_step.source;
  book_training(s, r);
  book_rates(s, r);
  return r;
}

/// How long accelerators wait for samples, and how busy what brings them is.
void book_input(const Scenario& s, const Run& run, Result& r) {
  const InputSupply& supply = s.input.supply;
  r.input.used = true;
  for (Actor rank = 0; rank < s.plan.ranks; ++rank) {
    const BreakdownParts parts = run.window.parts(rank);
    const auto waits = parts.exposed.find(kInputGroup);
    if (waits != parts.exposed.end() && parts.total.value > 0)
      r.input.starved_share = std::max(r.input.starved_share, waits->second / parts.total);
  }
  const double end = run.end.end.value;
  for (const LinkId link : run.input->machine().storage_links())
    r.input.storage_busy =
        std::max(r.input.storage_busy, run.traffic.on_link(link) /
                                           run.machine.links()[static_cast<std::size_t>(link)].capacity / Seconds{end});
  std::map<int, double> staged;  // by node
  for (const InputMachine::Group& group : run.input->machine().groups()) {
    const BreakdownParts parts = run.breakdown.parts(group.loader);
    if (const auto decode = parts.work.find("decode"); decode != parts.work.end())
      r.input.decode_busy = std::max(r.input.decode_busy, decode->second / Seconds{end});
    staged[group.node] += run.memory.peak(group.loader).value;
    r.input.read += run.traffic.received(group.loader).value / run.plan.steps;
  }
  const Bytes dataset = supply.samples * supply.sample;
  for (const auto& [node, bytes] : staged)
    r.input.host_bytes = std::max(r.input.host_bytes, bytes + std::min(supply.cache, dataset).value);
  r.input.from_cache = 1 - supply.missed;
}

Result result_of(const Scenario& s, const Run& run) {
  Result r;
  r.scenario = s.name;
  r.ranks = s.plan.ranks;
  r.step_time = step_time_of(s, run);
  if (s.measured.given()) r.measured = {s.measured.at(s.micro_batch_size).value, s.measured.source};
  book_training(s, r);
  if (s.plan.ranks > 1 && s.parallel.mechanism == Mechanism::all_reduce) {
    r.all_reduce.algorithm = all_reduce_name(s);
    r.all_reduce.fidelity = name_of(s.plan.collective.fidelity);
    r.all_reduce.channels = s.plan.collective.channels;
  }
  if (s.tuned) {
    r.all_reduce.tried_size = s.tuned->size.value;
    for (const Tuning::Candidate& c : s.tuned->candidates)
      r.all_reduce.tried.push_back({c.algorithm, c.channels, c.seconds});
  }
  r.operations = run.end.operations;
  r.messages = run.end.transfers;
  r.late_by_look_ahead = run.end.late_by_look_ahead;
  book_rates(s, r);
  book_servers(run, r);
  book_breakdown(s, run, r);
  book_memory(s, run, r);
  book_critical_path(s, run, r);
  if (run.input) book_input(s, run, r);
  for (const auto& [kind, bytes] : run.traffic.by_link_kind())
    r.bytes_by_link_kind[kind] = bytes.value / run.plan.steps;
  r.bytes_sent_per_rank_max = most_sent(run).value / run.plan.steps;
  r.bytes_total = run.traffic.total().value / run.plan.steps;
  return r;
}

}  // namespace

Result simulate_here(const Scenario& s, const SimulateOptions& options) {
  if (options.picture_rank) require_rank(s, *options.picture_rank);
  require_simulable(s);
  require_traceable(s, options);
  const auto begin = std::chrono::steady_clock::now();
  const Run run(s, options);
  Result r = result_of(s, run);
  r.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!options.trace.empty())
    write_whole(options.trace,
                chrome_trace(run.timeline, run.memory, run.machine, run.names, run.streams, [&options](Actor actor) {
                  return !options.trace_ranks ||
                         (options.trace_ranks->first <= actor && actor <= options.trace_ranks->second);
                }));
  if (!options.picture.empty()) {
    const Actor rank = options.picture_rank.value_or(run.breakdown.last());
    write_whole(options.picture, draw(step_picture(s, rank, run.end.end.value, run.timeline, run.names, run.breakdown,
                                                   run.memory, run.streams)));
  }
  return r;
}

Result simulate(const Scenario& s, const SimulateOptions& options) {
  Result r = s.said_step.time.value > 0
                 ? said_result(s)
                 : result_from_json(json::parse(in_child([&] { return to_json(simulate_here(s, options)).dump(); })));
  if (s.failures.given()) r.failures = study_failures(s, Seconds{r.step_time});
  return r;
}

std::vector<WhatIf> what_if(const Scenario& s, double factor, TransportKind transport) {
  std::vector<std::string> classes = resource_classes_of(s);
  for (const std::string& of_input : resource_classes(s.input.supply)) classes.push_back(of_input);
  const std::vector<std::string> texts = in_children(classes.size(), processors(), [&](std::size_t i) {
    SimulateOptions options;
    options.critical_path = false;
    options.transport = transport;
    options.upgrade[classes[i]] = factor;
    return to_json(simulate_here(s, options)).dump();
  });
  std::vector<WhatIf> table;
  for (std::size_t i = 0; i < classes.size(); ++i)
    table.push_back({classes[i], factor, json::parse(texts[i]).at("step_time_s").get<double>()});
  return table;
}

Explanation explain(const Scenario& s) {
  require_simulable(s);
  const std::string text = in_child([&s] {
    const Run run(s, {});
    json lines = json::array();
    for (const PathStep& step : critical_path(run.timeline, run.machine.links())) {
      const OpRecord& record = run.timeline.records()[step.id - 1];
      const std::string actor = run.machine.actor_name(record.actor), resource = resource_name(step.resource);
      const std::string& name = run.names[record.name];
      if (!lines.empty() && lines.back()[3] == name && lines.back()[2] == actor && lines.back()[4] == resource)
        lines.back()[1] = step.end;
      else
        lines.push_back({step.begin, step.end, actor, name, resource});
    }
    return json{{"result", to_json(result_of(s, run))}, {"path", lines}}.dump();
  });
  const json j = json::parse(text);
  Explanation e{result_from_json(j.at("result")), {}};
  for (const json& line : j.at("path")) e.path.push_back({line[0], line[1], line[2], line[3], line[4]});
  return e;
}

}  // namespace trainyard
