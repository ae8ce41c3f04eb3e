#include "scenarios/src/traces/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/traces/replay_program.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/folding/folded_machine.hpp"
#include "sim/observers/breakdown.hpp"
#include "sim/observers/path_sums.hpp"
#include "sim/observers/progress.hpp"
#include "sim/observers/trace.hpp"
#include "sim/observers/traffic.hpp"
#include "sim/process/output.hpp"
#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {
namespace {

constexpr const char* kStatedCompute = "compute, as the trace states it";

/// Names the resource that bounds each piece of a replayed operation. Kernels without a time are split as in `run`.
class ReplayNaming : public PathSums::Naming {
 public:
  /// `memory`: the group of copies and fills.
  ReplayNaming(const ClusterSpec& cluster, const Fold* fold, GroupId memory)
      : cluster_(cluster), fold_(fold), memory_(memory) {}
  void name(const OpRecord& record, double begin, double end, std::string_view piece, Book to) const override {
    const auto add = [&to](double from, double until, std::string_view resource) {
      if (until > from) to.first.add(to.second, resource, until - from);
    };
    if (record.began && record.kind == Kind::local && is_kernel(record.work.kernel) && piece != kHostLaunch) {
      const Actor rank = fold_ ? fold_->representative(record.actor) : record.actor;
      return shares_of(cluster_.type_of_gpu(rank).gpu, record.work).split(begin, end, add);
    }
    const bool starts = record.began && is_modelled(record) && piece == "latency";
    const double network = starts ? std::min(end - begin, network_latency_of(record.work).value) : 0;
    add(begin, begin + network, piece);
    const bool is_stated_copy = record.began && record.kind == Kind::compute && record.group == memory_;
    add(begin + network, end, starts ? kLibraryStart : is_stated_copy ? kMemoryName : resource(record, piece));
  }

 private:
  const ClusterSpec& cluster_;
  const Fold* fold_;
  GroupId memory_;

  static bool is_modelled(const OpRecord& record) {
    return record.kind == Kind::join && record.path_class != PathClass::automatic;
  }

  static std::string_view resource(const OpRecord& record, std::string_view piece) {
    if (!record.began) return piece;
    if (piece == kHostLaunch) return "host";
    if (record.kind == Kind::compute) return kStatedCompute;
    if (record.kind == Kind::delay) return "host";
    if (record.kind == Kind::local) return kMemoryName;  // sums within an exchange
    return is_modelled(record) && piece == kOwnLimit ? name_of(limit_of(record.path_class)) : piece;
  }
};

JsonFields<ReplayResult::Breakdown> replay_breakdown_fields() {
  using B = ReplayResult::Breakdown;
  return JsonFields<B>()
      .value("compute", "s", &B::compute, "work of the GPU, with the time of the trace or of the GPU's model")
      .value("memory", "s", &B::memory, "memory nodes that do not overlap with compute")
      .value("host", "s", &B::host, "work of the CPU that does not overlap with compute or memory")
      .value("exposed_communication", "s", &B::exposed_communication,
             "communication that does not overlap with work, by operation")
      .value("bubble", "s", &B::bubble, "waiting for messages of a peer")
      .value("other", "s", &B::other, "the rest: nothing of the rank runs");
}

JsonFields<ReplayResult::Collectives> collectives_fields() {
  using C = ReplayResult::Collectives;
  return JsonFields<C>()
      .value("operation", "", &C::operation, "collective operation")
      .value("ranks", "", &C::ranks, "ranks of each group")
      .value("count", "", &C::count, "number of collectives in all such groups")
      .value("bytes", "bytes", &C::bytes, "sum of their sizes, as nccl-tests counts them");
}

void book_replay_breakdown(const Breakdown& breakdown, const Fold* fold, ReplayResult& r) {
  const Actor last = breakdown.last();
  const BreakdownParts parts = breakdown.parts(last);
  const auto work = [&parts](const char* group) {
    const auto found = parts.work.find(group);
    return found == parts.work.end() ? 0.0 : found->second.value;
  };
  r.breakdown.rank = fold ? fold->representative(last) : last;
  r.breakdown.compute = work("compute");
  r.breakdown.memory = work("memory");
  r.breakdown.host = work("host");
  for (const auto& [group, seconds] : parts.exposed) r.breakdown.exposed_communication[group] = seconds.value;
  r.breakdown.bubble = parts.bubble.value;
  r.breakdown.other = parts.other.value;
}

void book_collectives(const ReplayPlan& plan, ReplayResult& r) {
  std::map<std::pair<std::string, int>, ReplayResult::Collectives> rows;
  for (const RankReplay& rank : plan.ranks)
    for (const ReplayStep& step : rank.steps) {
      if (step.node->type != ChakraType::collective) continue;
      const ReplayCall& call = rank.calls[step.call];
      if (call.index != 0) continue;  // each collective once
      const std::size_t ranks = plan.communicator(call.communicator).members.size();
      const Operation operation = call.what->algorithm->operation;
      ReplayResult::Collectives& row = rows[{name_of(operation), static_cast<int>(ranks)}];
      row.operation = name_of(operation);
      row.ranks = static_cast<int>(ranks);
      ++row.count;
      row.bytes += whole_bytes(operation, plan.bytes_of(call.communicator, step.instance).value, ranks);
    }
  for (const auto& [key, row] : rows) r.collectives.push_back(row);
}

void book_replay_path(const std::map<std::string, double>& path, ReplayResult& r) {
  double most = 0;
  for (const auto& [resource, seconds] : path) {
    r.critical_path[resource] = seconds;
    if (seconds > most) r.bottleneck = resource;
    most = std::max(most, seconds);
  }
  r.bottleneck_share = r.time > 0 ? most / r.time : 0;
}

void write_replay_trace(const std::filesystem::path& file, const Timeline& timeline, const ReplayPlan& plan,
                        const Machine& machine, const Names& names) {
  std::vector<std::string> streams;  // streams differ between ranks: a stream is named if all ranks agree
  for (const RankReplay& rank : plan.ranks)
    for (std::size_t s = 0; s < rank.streams.size(); ++s) {
      if (streams.size() <= s)
        streams.push_back(rank.streams[s]);
      else if (streams[s] != rank.streams[s])
        streams[s] = fmt::format("stream {}", s);
    }
  write_atomically(file, chrome_trace(timeline, MemoryUse(false), machine, names, streams));
}

ReplayResult replay_here(const ReplayOptions& options, const ClusterSpec& cluster, const SoftwareStack& software,
                         Folding folding, const std::filesystem::path& trace) {
  ClusterMachine machine(cluster, software);
  const ReplayPlan plan(options, machine);
  ReplayMachine timed(machine);
  Names names;
  for (const char* group : {"compute", "memory", "host"})
    names.group(group, Role::work);  // earlier groups hide later ones
  const ReplayPrograms source(plan, options, names);
  std::optional<Fold> fold;
  std::optional<FoldedMachine> folded;
  const std::vector<LinkChange> changes = background_changes(cluster.background, machine.graph());
  if (folding == Folding::automatic && trace.empty() && source.foldable()) fold.emplace(timed, source, changes);
  if (fold && !fold->halves()) fold.reset();
  if (fold) folded.emplace(timed, *fold);
  Machine& simulated = folded ? static_cast<Machine&>(*folded) : timed;

  Breakdown breakdown(names);
  Traffic traffic(simulated.links(), fold ? fold->multiplicity() : Multiplicity{});
  const ReplayNaming naming(machine.spec(), fold ? &*fold : nullptr, names.group("memory", Role::work));
  PathSums path(simulated.links(), naming);
  Timeline timeline;
  Progress progress;
  const SimulationResult end =
      run_programs(simulated, fold ? fold->programs(source) : source.programs(),
                   {.observers = {&breakdown, &traffic, &path, trace.empty() ? nullptr : &timeline, &progress},
                    .link_changes = fold ? fold->changes(changes) : changes});
  if (!trace.empty()) write_replay_trace(trace, timeline, plan, simulated, names);

  ReplayResult r;
  r.trace = options.prefix.string();
  r.ranks = static_cast<int>(plan.ranks.size());
  r.simulated_ranks = fold ? fold->classes() : r.ranks;
  r.nodes = plan.nodes();
  r.operations = end.operations;
  r.messages = static_cast<std::uint64_t>(traffic.messages());
  r.time = end.end.value;
  book_replay_breakdown(breakdown, fold ? &*fold : nullptr, r);
  book_replay_path(path.by_resource(), r);
  book_collectives(plan, r);
  r.judged = plan.expected_error();
  if (plan.recorded) {
    r.step = plan.recorded->step;
    r.recorded = plan.recorded->recorded;
    r.mean_step = plan.recorded->mean_step;
    r.notes = plan.recorded->notes;
  }
  for (const auto& [kind, bytes] : traffic.by_link_kind()) r.bytes_by_link_kind[kind] = bytes.value;
  r.bytes_sent_per_rank_max = traffic.most_sent().value;
  r.bytes_total = traffic.total().value;
  return r;
}

const RegisterJsonReference registered_replay_json{"replay", "what the replay of a trace takes", replay_fields};

}  // namespace

const JsonFields<ReplayResult>& replay_fields() {
  using R = ReplayResult;
  static const JsonFields<R> fields =
      JsonFields<R>()
          .value("trace", "", &R::trace, "prefix of the trace's files, or the profiler's file or folder")
          .value("ranks", "", &R::ranks, "ranks of the trace")
          .value("simulated_ranks", "", &R::simulated_ranks,
                 "ranks that were simulated; each stands for its equivalence class")
          .value("nodes", "", &R::nodes, "nodes of all files")
          .value("time_s", "s", &R::time, "time from the first node to the end of the last")
          .value("step", "", &R::step, "the step of the profiler's trace that is replayed")
          .when(&R::step, "if the trace marks steps")
          .value("recorded_s", "s", &R::recorded,
                 "time on the recorded machine from the first kernel or copy to the end of the last")
          .when(&R::recorded, "with a trace of PyTorch's profiler")
          .value("recorded_step_s", "s", &R::mean_step, "mean time of the steps that the trace marks")
          .when(&R::mean_step, "if the trace marks steps")
          .value("notes", "", &R::notes, "what was done with gaps and contradictions of the trace")
          .when(&R::notes, "with a trace of PyTorch's profiler")
          .object("breakdown_s", &R::breakdown, replay_breakdown_fields(), "time of the last rank to finish, by cause")
          .value(
              "breakdown_rank", "", [](auto& r) -> auto& { return r.breakdown.rank; }, "the last rank to finish")
          .value("critical_path_s", "s", &R::critical_path, "the critical path by resource")
          .object("bottleneck",
                  JsonFields<R>()
                      .value("resource", "", &R::bottleneck, "resource with the largest part of the critical path")
                      .value("share", "share", &R::bottleneck_share, "share of that resource in the critical path"),
                  "what limits the time")
          .object(
              "traffic_bytes",
              JsonFields<R>()
                  .value("by_link_kind", "bytes", &R::bytes_by_link_kind, "bytes over all links of a kind")
                  .value("sent_per_rank_max", "bytes", &R::bytes_sent_per_rank_max, "bytes of the rank that sends most")
                  .value("total", "bytes", &R::bytes_total, "bytes of all messages, each counted once"),
              "bytes that are sent")
          .list("collectives", &R::collectives, collectives_fields(), "collectives by operation and size of the group")
          .value("collectives_judged", "", &R::judged,
                 "expected error of collectives by the fitted model; empty: there are none")
          .value("operations", "", &R::operations, "number of simulated operations")
          .value("messages", "", &R::messages, "number of messages of all ranks");
  return fields;
}

ReplayResult replay(const ReplayOptions& options, const ClusterSpec& cluster, const SoftwareStack& software,
                    Folding folding, const std::filesystem::path& trace) {
  const auto run = [&](Folding mode) { return replay_here(options, cluster, software, mode, trace); };
  try {
    return run(folding);
  } catch (const Deadlock&) {
    if (folding == Folding::off) throw;
    return run(Folding::off);  // the error then names the cycle rank by rank
  }
}

}  // namespace trainyard
