// Parameter servers (Li et al. 2014): workers push gradients key by key, and servers answer with weights.
// Chooses the program of each actor of a training with parameter servers.
#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "sim/program.hpp"
#include "strategies/mechanisms/central/central_mechanism.hpp"
#include "strategies/mechanisms/servers/server_choice.hpp"
#include "strategies/mechanisms/servers/server_step.hpp"
#include "strategies/mechanisms/servers/server_values.hpp"
#include "strategies/mechanisms/servers/stage_times.hpp"
#include "strategies/step/compute_phase.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {
namespace {

// Default number of evaluated steps if workers do not wait for each other: enough to average over recurring patterns.
constexpr int kStepsOutOfStep = 20;
// A worker that is a quarter faster than the slowest one reaches the staleness bound after this many steps for each
// step of the bound. Until then the rate is higher than later, even if it looks steady.
constexpr int kStepsToTheBound = 4;
// Between the slowest worker's first end of a step and the fastest worker's last one, every worker must end some steps.
constexpr int kFewestOutOfStep = 4;

/// The actors of the servers: they take the CPUs or GPUs of their nodes in turn.
std::vector<Actor> places_of(const ServerChoice& choice, const ClusterMachine& machine) {
  const bool on_cpu = choice.device == ServerChoice::Device::cpu;
  std::map<int, std::size_t> used;
  std::vector<Actor> places;
  for (int server = 0; server < choice.count; ++server) {
    const int node = choice.nodes[static_cast<std::size_t>(server) % choice.nodes.size()];
    const std::vector<DeviceId> devices =
        machine.graph().devices_of_kind(on_cpu ? DeviceKind::cpu : DeviceKind::gpu, node);
    const std::size_t processes = choice.device == ServerChoice::Device::gpus ? devices.size() : 1;
    if (devices.empty() || used[node] + processes > devices.size())
      fail(choice.place, fmt::format("plan.data_parallel.servers: node {} has {} {}{}, too few for its servers", node,
                                     devices.size(), on_cpu ? "CPU" : "GPU", devices.size() == 1 ? "" : "s"));
    for (std::size_t i = 0; i < processes; ++i) places.push_back(machine.actor(devices[used[node]++]));
  }
  return places;
}

/// The keys of a plan. With Keys::buckets they are the buckets that the plan's key `bucket` makes.
std::vector<GradientBucket> keys_of(const TrainingPlan& plan, ServerChoice::Keys kind) {
  const StagePlan& stage = plan.stages.front();
  switch (kind) {
    case ServerChoice::Keys::tensors:
      return gradient_buckets(*plan.network, plan.gradient_element, Bytes{1}, Bytes{1}, true);
    case ServerChoice::Keys::layers:
      return layer_buckets(*plan.network, stage.chunks.front());
    case ServerChoice::Keys::buckets:
      break;
  }
  return stage.buckets;
}

class ServerRun : public MechanismRun {
 public:
  ServerRun(ServerPlan plan, const MechanismSite& site)
      : plan_(std::move(plan)),
        tables_(plan_.base.step, site.names),
        words_(site.names),
        board_(plan_.clients(), plan_.clients() - plan_.backup_workers, plan_.base.step.steps, plan_.keys(),
               plan_.base.step.steps) {
    if (plan_.local.is_used()) stages_.emplace(plan_, words_);
  }

  Programs programs() override { return server_programs(plan_, tables_, words_, board_); }
  std::vector<std::string> streams() const override { return server_streams(plan_); }
  const PassTables& tables() const override { return tables_; }
  const TrainingPlan& plan() const override { return plan_.base.step; }
  void add_values(TrainingValues& values) override { values_.emplace(values, plan_); }
  Observer* observer() override { return stages_ ? &*stages_ : nullptr; }

  /// With backup workers the servers end steps, because a worker may end steps whose gradients are dropped.
  std::pair<Actor, Actor> end_steps() const override {
    if (plan_.backup_workers == 0) return {0, plan_.workers()};
    return {plan_.workers(), plan_.workers() + plan_.servers};
  }
  void step_over() override {
    pushes_.push_back({board_.staleness(), board_.dropped_pushes()});
    if (stages_) stages_->step_over();
  }

  /// Books the waiting times of a step as the mean of all workers, and the figures of keys and pushes.
  void add_figures(MechanismFigures& figures, const StepWindow& window) const override {
    FiguresByKey& f = figures.servers;
    f["workers"] = std::int64_t{plan_.workers()};
    f["servers"] = std::int64_t{plan_.servers};
    f["consistency"] = std::string(consistency_names()[static_cast<std::size_t>(plan_.consistency)]);
    f["keys"] = static_cast<std::int64_t>(plan_.keys());
    f["rule"] = plan_.rule.name;
    f["copies"] = std::int64_t{plan_.replication.copies};
    std::vector<double> share_of(static_cast<std::size_t>(plan_.servers));
    for (std::size_t k = 0; k < plan_.keys(); ++k) share_of[plan_.server_of[k]] += plan_.share_of(k);
    NumbersByName shares;
    for (std::size_t server = 0; server < share_of.size(); ++server)
      shares[fmt::format("server {}", server)] = share_of[server];
    f["shares"] = shares;
    f["largest_share"] = *std::ranges::max_element(share_of);
    const Pushes pushes = pushes_in(window);
    figures.staleness = pushes.staleness;
    std::uint64_t applied = 0;
    for (const auto& [staleness, count] : figures.staleness) applied += count;
    const auto dropped = static_cast<double>(pushes.dropped);
    f["dropped_share"] = dropped / (dropped + static_cast<double>(applied));
    // With local sums a worker's messages are those of its node, and it waits while the node exchanges with the servers.
    const bool is_local = plan_.local.is_used();
    const char* const pull = is_local ? "broadcast in the node" : "pull";
    const char* const push = is_local ? "sum in the node" : "push";
    const char* bubble = is_local                                        ? "exchange with the servers"
                         : plan_.consistency == Consistency::synchronous ? "barrier"
                         : plan_.consistency == Consistency::stale       ? "staleness bound"
                                                                         : "server";
    NumbersByName waits;
    Seconds compute;
    double own_time = 0;  // mean time of a worker's own steps
    for (Actor worker = 0; worker < plan_.workers(); ++worker) {
      const BreakdownParts parts = window.parts(worker);
      const double own_steps = window.own_steps(worker);
      compute = std::max(compute, (parts.work.at(kComputeGroup) + parts.host_wait) / own_steps);
      // Workers that wait for each other end their last step at different times, so that a share of their own time counts.
      const bool is_in_step = plan_.consistency == Consistency::synchronous && plan_.base.step.marks_steps;
      const double a_step = is_in_step ? window.step.value / parts.total.value : 1 / own_steps;
      waits[pull] += parts.exposed.at("parameters").value * a_step / plan_.workers();
      waits[push] += parts.exposed.at("gradients").value * a_step / plan_.workers();
      waits[bubble] += parts.bubble.value * a_step / plan_.workers();
      own_time += parts.total.value / plan_.workers();
    }
    // In a run of one step a worker ends before all nodes have the parameters back. It then waits for the others.
    if (plan_.consistency == Consistency::synchronous && !plan_.base.step.marks_steps)
      waits[bubble] += std::max(0.0, window.step.value - own_time);
    f["waits_s"] = waits;
    Seconds update;
    for (Actor server = plan_.workers(); server < plan_.workers() + plan_.servers; ++server)
      update = std::max(update, Seconds{window.work(server)});
    if (stages_) f["stages"] = stages_->stages(compute, update, window);
    figures.taught_share = static_cast<double>(plan_.workers() - plan_.backup_workers) / plan_.workers();
  }

 private:
  /// Number of pushes of keys up to the end of a step.
  struct Pushes {
    std::map<std::uint32_t, std::uint64_t> staleness;
    std::uint64_t dropped = 0;
  };
  ServerPlan plan_;
  PassTables tables_;
  CentralNames words_;
  ServerBoard board_;
  std::vector<Pushes> pushes_;  // indexed by step
  std::optional<ServerValues> values_;
  std::optional<StageTimes> stages_;

  Pushes pushes_in(const StepWindow& window) const {
    if (!window.found) return {board_.staleness(), board_.dropped_pushes()};
    Pushes pushes = pushes_[static_cast<std::size_t>(window.warm + window.steps - 1)];
    if (window.warm == 0) return pushes;
    const Pushes& before = pushes_[static_cast<std::size_t>(window.warm - 1)];
    for (const auto& [staleness, count] : before.staleness) pushes.staleness[staleness] -= count;
    std::erase_if(pushes.staleness, [](const auto& entry) { return entry.second == 0; });
    pushes.dropped -= before.dropped;
    return pushes;
  }
};

/// Text about the smallest share, for example ", the emptiest 20.1 %", or "" if it is as large as the largest one.
std::string emptiest(const NumbersByName& shares, double largest) {
  double least = largest;
  for (const auto& [server, share] : shares) least = std::min(least, share);
  constexpr double visible = 0.001;
  return largest - least < visible ? "" : fmt::format(", the emptiest {:.1f} %", least * 100);
}

/// The workers of each node.
std::vector<LocalGroup> groups_of(int workers, const ClusterSpec& cluster) {
  std::map<int, LocalGroup> groups;
  for (Actor worker = 0; worker < workers; ++worker) groups[cluster.node_of_gpu(worker)].workers.push_back(worker);
  std::vector<LocalGroup> all;
  for (auto& [node, group] : groups) all.push_back(std::move(group));
  return all;
}

class ParameterServers : public Mechanism {
 public:
  explicit ParameterServers(ServerChoice choice) : choice_(std::move(choice)) {}

  std::optional<int> workers() const override { return choice_.workers; }
  void read_setting(Fields& fields, const MechanismSetting& setting) override {
    require_no_all_reduce(fields, setting, kName);
    check_servers(choice_, fields, setting.mesh.ranks(), setting.cluster);
  }
  bool all_reduces() const override { return false; }
  bool ranks_alike() const override { return false; }
  bool is_synchronous() const override { return stops_together() && choice_.backup_workers == 0; }
  bool stops_together() const override { return choice_.consistency == Consistency::synchronous; }
  int servers() const override { return choice_.count; }
  bool goes_on_without_some() const override { return choice_.consistency == Consistency::asynchronous; }
  std::vector<int> server_nodes() const override { return choice_.nodes; }
  std::string refuses_compression() const override {
    if (choice_.aggregation != ServerChoice::Aggregation::none)
      return "gradients are summed in nodes before they are pushed";
    return choice_.mixing_shares.empty() ? "" : "workers push weights, and no gradients";
  }
  bool survives_server() const override { return choice_.replication.is_used(); }

  void lay_out(TrainingPlan& plan, const TrainingStates& states) const override {
    without_all_reduce(plan);
    plan.stages.front().buckets = keys_of(plan, choice_.keys);
    const bool workers_update = !choice_.mixing_shares.empty() || !choice_.rule.updates;
    plan.stages.front().memory = worker_memory(plan, states, workers_update ? plan.network->parameters() : 0);
    if (plan.compression) add_compression_memory(plan);
  }
  StepRhythm rhythm() const override {
    StepRhythm rhythm;
    rhythm.varies = !is_synchronous();
    rhythm.warm = 1;  // only in the first step, workers wait for all weights before they compute
    if (!is_synchronous()) rhythm.steps = kStepsOutOfStep;
    if (!stops_together()) rhythm.fewest = kFewestOutOfStep;
    if (choice_.consistency == Consistency::stale) rhythm.warm = 1 + (kStepsToTheBound + 1.0) * choice_.staleness;
    return rhythm;
  }
  double operations(const TrainingPlan& plan) const override {
    const std::vector<GradientBucket>& keys = plan.stages.front().buckets;
    const SharedKeys shared = share_out(keys, choice_.count, choice_.shards, choice_.split, plan.gradient_element);
    return operations_through_center(plan) * static_cast<double>(shared.keys.size()) / static_cast<double>(keys.size());
  }

  std::vector<PlacedMachine::PlacedActor> actors(const TrainingPlan& plan,
                                                 const ClusterMachine& machine) const override {
    const std::vector<Actor> places = places_of(choice_, machine);
    std::vector<PlacedMachine::PlacedActor> actors;
    for (Actor worker = 0; worker < plan.ranks(); ++worker) actors.push_back({worker, ""});
    for (std::size_t server = 0; server < places.size(); ++server)
      actors.push_back({places[server], fmt::format("server {}", server)});
    if (choice_.backup_workers > 0) actors.push_back({places.front(), "chief"});
    if (choice_.aggregation == ServerChoice::Aggregation::none) return actors;
    const std::vector<LocalGroup> groups = groups_of(plan.ranks(), machine.spec());
    for (std::size_t g = 0; g < groups.size(); ++g)
      actors.push_back({aggregator_place(groups[g], machine), fmt::format("aggregator {}", g)});
    return actors;
  }
  std::unique_ptr<MechanismRun> run(const MechanismSite& site) const override {
    const int servers = static_cast<int>(places_of(choice_, site.machine).size());
    ServerPlan plan = server_plan(site.plan, servers, choice_.shards, choice_.place, choice_.split);
    const std::set<int> used(plan.server_of.begin(), plan.server_of.end());
    if (choice_.backup_workers > 0 &&
        used.size() < static_cast<std::size_t>(servers))  // each ends its steps by its keys
      fail(choice_.place, fmt::format("plan.data_parallel.servers: {} of {} have no key, but with backup_workers each "
                                      "server needs one; take fewer servers, or cut keys into more parts",
                                      servers - static_cast<int>(used.size()), servers));
    static_cast<ServerRules&>(plan) = choice_;
    if (!plan.mixes()) plan.replication.state = optimizer_state_size(site.states.optimizer, site.states.precision);
    if (choice_.aggregation != ServerChoice::Aggregation::none)
      plan.local = {groups_of(plan.workers(), site.machine.spec()),
                    choice_.aggregation == ServerChoice::Aggregation::cpu,
                    choice_.reduce,
                    choice_.broadcast,
                    {}};
    const double parameters = site.plan.network->parameters(), weights = plan.workers_update() ? 0 : parameters;
    plan.base.memory =
        model_states({weights, parameters, plan.mixes() ? 0 : weights}, site.states.precision, site.states.optimizer);
    return std::make_unique<ServerRun>(std::move(plan), site);
  }

  std::string summary(const std::string&) const override { return kName; }
  /// Lines about the waiting times of workers, the staleness if there is any, and the load of the servers.
  Report report(const MechanismFigures& figures, const std::function<std::string(double)>& time,
                const std::string& unit) const override {
    const FiguresByKey& f = figures.servers;
    const auto integer = [&f](const char* key) { return figure<std::int64_t>(f, key); };
    std::vector<std::string> waits;
    for (const auto& [what, seconds] : figure<NumbersByName>(f, "waits_s"))
      waits.push_back(fmt::format("{} {}", what, time(seconds)));
    auto kind = figure<std::string>(f, "consistency");
    if (const auto& rule = figure<std::string>(f, "rule"); !rule.empty() && rule != server_rules().front().name)
      kind += fmt::format(", which keep the {} of gradients", rule);
    if (integer("copies") > 1) kind += fmt::format(", each key on {}", integer("copies"));
    const std::int64_t servers = integer("servers");
    Report report{
        "servers",
        {fmt::format("{} workers, {}, {}; a worker waits for: {}   ({}, mean over the workers)", integer("workers"),
                     counted_noun(servers, "server"), kind, fmt::join(waits, " │ "), unit)}};
    std::vector<std::string> stages;
    if (f.contains("stages"))
      for (const NamedTime& stage : figure<std::vector<NamedTime>>(f, "stages"))
        stages.push_back(fmt::format("{} {}", stage.name, time(stage.time)));
    if (!stages.empty())
      report.lines.push_back(fmt::format("stages of a step, of {}: {}   ({})", counted_noun(integer("keys"), "key"),
                                         fmt::join(stages, " │ "),
                                         unit + (integer("keys") == 1 ? "" : "; stages of different keys overlap")));
    double pushes = 0, missed = 0;
    for (const auto& [staleness, count] : figures.staleness) {
      pushes += static_cast<double>(count);
      missed += staleness * static_cast<double>(count);
    }
    std::vector<std::string> more;
    if (missed > 0)
      more.push_back(fmt::format("staleness {:.3g} updates on average, {} at most", missed / pushes,
                                 figures.staleness.rbegin()->first));
    if (const double dropped = figure<double>(f, "dropped_share"); dropped > 0)
      more.push_back(fmt::format("{:.1f} % of gradients come too late", dropped * 100));
    const double largest = figure<double>(f, "largest_share");
    // Whole tensors can be larger than a server's even part.
    const bool uneven = largest * static_cast<double>(servers) > 1.5 && choice_.keys != ServerChoice::Keys::buckets &&
                        !choice_.split.is_used();
    if (servers > 1)
      more.push_back(fmt::format("the fullest server has {:.1f} % of the bytes{}{}", largest * 100,
                                 emptiest(figure<NumbersByName>(f, "shares"), largest),
                                 uneven ? ": split: mxnet or byteps would cut large tensors" : ""));
    if (!more.empty()) report.lines.push_back(fmt::format("{}", fmt::join(more, "; ")));
    return report;
  }

 private:
  static constexpr const char* kName = "parameter-server";
  ServerChoice choice_;

  /// The GPU on which the gradients of a node are summed, or the CPU that it is attached to.
  Actor aggregator_place(const LocalGroup& group, const ClusterMachine& machine) const {
    const Actor first = group.workers.front();
    if (choice_.aggregation == ServerChoice::Aggregation::gpu) return first;
    const DeviceId socket = machine.socket_of(first);
    if (socket < 0)
      fail(choice_.place, fmt::format("plan.data_parallel.local_aggregation: cpu, but {} is attached to no CPU",
                                      machine.actor_name(first)));
    return machine.actor(socket);
  }
};

const RegisterMechanism register_parameter_servers{
    {"parameter-server",
     "servers hold the parameters by key; workers push gradients and receive weights in answer. servers: {count, "
     "label, place, on, nodes, keys, shards, split, rule, replicas}",
     server_keys(),
     nullptr,
     [](Fields& fields, const ClusterSpec& cluster) -> std::unique_ptr<Mechanism> {
       return std::make_unique<ParameterServers>(read_servers(fields, cluster));
     },
     {{"waits_s", "waiting time of a worker in a step, by cause; mean over the workers", NumbersByName{}, "s", "",
       true},
      {"workers", "number of workers", std::int64_t{}},
      {"servers", "number of servers", std::int64_t{}},
      {"consistency", "synchronous, stale or asynchronous", std::string{}},
      {"keys", "number of keys on all servers; parts of split keys count separately", std::int64_t{}},
      {"shares", "share of each server in the bytes of all keys", NumbersByName{}, "share"},
      {"largest_share", "share of the fullest server in the bytes of all keys", 0.0, "share"},
      {"rule", "how servers use gradients: optimizer, sum or mean", std::string{}},
      {"copies", "number of servers that hold each key", std::int64_t{}},
      {"dropped_share", "share of the pushes that came too late for their step and were dropped", 0.0, "share"},
      {"stages",
       "stages of a step, each with the time in which its messages are under way, or in which workers or servers "
       "compute; with several keys they overlap",
       std::vector<NamedTime>{}, "", "with local aggregation"}},
     "",
     &MechanismFigures::servers}};

std::unique_ptr<Program> chief(const ServerPlan& plan, const CentralNames& words) {
  std::vector<Op> ops;
  std::vector<Actor> servers;
  for (int server = 0; server < plan.servers; ++server) {
    servers.push_back(plan.workers() + server);
    ops.push_back({.kind = Kind::recv, .group = words.gradients, .name = words.over});
    ops.back().address(server, kOverTag);
  }
  return std::make_unique<ListProgram>(std::move(ops), std::move(servers));
}

}  // namespace

std::vector<std::string> server_streams(const ServerPlan& plan) {
  const int most = std::max(
      {server_streams_of(plan), worker_streams_of(plan), plan.local.is_used() ? aggregator_streams_of(plan) : 0});
  std::vector<std::string> names{"compute"};
  for (int i = 1; i < most; ++i) names.push_back(fmt::format("messages {}", i));
  return names;
}

std::unique_ptr<Program> server_program(Actor actor, const ServerPlan& plan, const PassTables& tables,
                                        const CentralNames& words, ServerBoard& board) {
  if (actor < plan.workers())
    return plan.local.is_used() ? local_worker(actor, plan, tables, words)
                                : parameter_worker(actor, plan, tables, words);
  if (actor < plan.workers() + plan.servers) return parameter_server(actor, plan, tables, words, board);
  return plan.local.is_used() ? aggregator(actor, plan, tables, words) : chief(plan, words);
}

Programs server_programs(const ServerPlan& plan, const PassTables& tables, const CentralNames& words,
                         ServerBoard& board) {
  Programs programs;
  for (Actor actor = 0; actor < plan.actors(); ++actor)
    programs.push_back(server_program(actor, plan, tables, words, board));
  return programs;
}

}  // namespace trainyard
