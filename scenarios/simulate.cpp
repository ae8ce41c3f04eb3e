#include "scenarios/simulate.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "scenarios/central_plans.hpp"
#include "scenarios/input_run.hpp"
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

namespace trainyard {
namespace {

using nlohmann::json;

/// Traces and pictures need every operation and every change of memory.
bool keeps_all(const SimulateOptions& options) { return !options.trace.empty() || !options.picture.empty(); }

void require_rank(const Scenario& s, int rank) {
  if (rank < 0 || rank >= s.ranks())
    throw UserError(fmt::format("--rank {}: the scenario has ranks 0 to {}", rank, s.ranks() - 1));
}

/// Everything of one simulated step.
struct Run {
  Names names;
  ClusterMachine machine;
  std::optional<InputRun> input;
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
      : machine(upgraded(s.cluster, with_drives(s.input.supply, options.upgrade)),
                upgraded(s.software, options.upgrade)),
        input(input_run(s, machine, options.upgrade)),
        breakdown(names),
        traffic(links()),
        memory(keeps_all(options)),
        window(breakdown, names.intern(kStepOver), s.warm_steps, s.plan.steps) {
    machine.scale_compute(s.compute_scale);
    const SoftwareStack stack = upgraded(s.software, options.upgrade);
    const CentralPlan in_center = central_plan(s, machine, stack);
    central = in_center.used();
    plan = central ? in_center.step : prepared_plan(s, upgraded(s.cluster, options.upgrade), stack);
    records = keeps_all(options) || (options.critical_path && estimated_operations(s) <= kMostOfPath);
    plan.steps += s.warm_steps;
    plan.marks_steps = s.warm_steps > 0;
    if (input) input->feed(plan);
    if (!records && s.parallel.any()) plan.first_fused = kFirstFused;
    const PassTables tables(plan, names);
    machine.fuse(tables.fused().runs());
    const TrainingStreams used(plan);
    streams = central ? central_streams(in_center) : used.names();
    const std::optional<CentralWords> words = central ? std::optional<CentralWords>(names) : std::nullopt;
    Simulation simulation(input ? static_cast<Machine&>(input->machine()) : machine, options.transport);
    for (const Actor actor : in_center.actors())
      if (central) simulation.add(actor, central_program(actor, in_center, tables, *words));
    for (int rank = 0; rank < plan.ranks() && !central; ++rank)
      simulation.add(rank, training_program(rank, plan, tables, used));
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

  const Machine& whole_machine() const { return input ? static_cast<const Machine&>(input->machine()) : machine; }
  std::span<const Link> links() const { return whole_machine().links(); }
  /// Of the steps that are looked at: when they began, for the rank that ends last, and how many they are.
  double begin() const { return window.begin(breakdown.last()).value; }
  double end_of_steps() const { return plan.marks_steps ? window.end(breakdown.last()).value : end.end.value; }
  double steps(const Scenario& s) const { return plan.steps - s.warm_steps; }

 private:
  static std::optional<InputRun> input_run(const Scenario& s, ClusterMachine& machine, const Upgrade& upgrade) {
    if (!s.input.used()) return std::nullopt;
    return std::optional<InputRun>(std::in_place, s.input, s.parallel.mesh, s.micro_batch_size, machine, upgrade);
  }
};

std::string resource_name(const std::string& r) {
  if (r == "compute") return "GPU compute";
  if (r == "memory") return "GPU memory";
  if (r == "delay") return "framework";
  return r;
}

/// What work on the path is bound by, of actors that are no GPU: a server's sums and updates, decoding.
void name_host_work(const Run& run, int ranks, PathStep& step) {
  if (run.timeline.records()[step.id - 1].actor < ranks) return;
  if (step.resource == "memory") step.resource = "host memory";
  if (step.resource == "compute" && run.input) step.resource = "decoding";
}

void book_critical_path(const Scenario& s, const Run& run, Result& r) {
  std::vector<PathStep> path = critical_path(run.timeline, run.links());
  if (path.empty()) return;
  for (PathStep& step : path) {
    name_host_work(run, r.ranks, step);
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
  const double executed = (s.network.forward_flops() + s.network.backward_flops()).value * micro_batches;
  const double model = s.network.model_flops_per_token().value * tokens;
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
  const BreakdownParts parts = run.window.parts(run.breakdown.last());
  const double steps = run.steps(s);
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
  r.breakdown.rank = run.breakdown.last();
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
  book_stages(s, run, r);
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
        std::max(r.input.storage_busy,
                 run.traffic.on_link(link) / run.links()[static_cast<std::size_t>(link)].capacity / Seconds{end});
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
  r.step_time = (run.end_of_steps() - run.begin()) / run.steps(s);
  if (s.measured.given()) r.measured = {s.measured.at(s.micro_batch_size).value, s.measured.source};
  r.training_steps = s.training.steps;
  r.training_time = s.training.steps * r.step_time;
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
  book_breakdown(s, run, r);
  book_memory(s, run, r);
  book_critical_path(s, run, r);
  if (run.input) book_input(s, run, r);
  for (const auto& [kind, bytes] : run.traffic.by_link_kind())
    r.bytes_by_link_kind[kind] = bytes.value / run.plan.steps;
  r.bytes_sent_per_rank_max = run.traffic.most_sent().value / run.plan.steps;
  r.bytes_total = run.traffic.total().value / run.plan.steps;
  return r;
}

}  // namespace

Result simulate_here(const Scenario& s, const SimulateOptions& options) {
  if (options.picture_rank) require_rank(s, *options.picture_rank);
  require_simulable(s);
  const auto begin = std::chrono::steady_clock::now();
  const Run run(s, options);
  Result r = result_of(s, run);
  r.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!options.trace.empty())
    write_whole(options.trace, chrome_trace(run.timeline, run.memory, run.whole_machine(), run.names, run.streams));
  if (!options.picture.empty()) {
    const Actor rank = options.picture_rank.value_or(run.breakdown.last());
    write_whole(options.picture, draw(step_picture(s, rank, run.end.end.value, run.timeline, run.names, run.breakdown,
                                                   run.memory, run.streams)));
  }
  return r;
}

Result simulate(const Scenario& s, const SimulateOptions& options) {
  return result_from_json(json::parse(in_child([&] { return to_json(simulate_here(s, options)).dump(); })));
}

std::vector<WhatIf> what_if(const Scenario& s, double factor, TransportKind transport) {
  std::vector<std::string> classes = resource_classes(s.cluster);
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
    for (const PathStep& step : critical_path(run.timeline, run.links())) {
      const OpRecord& record = run.timeline.records()[step.id - 1];
      const std::string actor = run.whole_machine().actor_name(record.actor), resource = resource_name(step.resource);
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
