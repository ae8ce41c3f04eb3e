#include "scenarios/src/traces/chakra_export.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "scenarios/src/traces/chakra.hpp"
#include "scenarios/src/traces/replay_plan.hpp"
#include "sim/error.hpp"
#include "sim/observer.hpp"
#include "sim/process/output.hpp"
#include "strategies/collectives/collective_flows.hpp"

namespace trainyard {
namespace {

/// Records every operation of a step whose ranks are not folded.
class ChakraExport : public Observer {
 public:
  /// The run must outlive it.
  explicit ChakraExport(const StepRun& run) : run_(run), ranks_(static_cast<std::size_t>(run.scenario.ranks())) {}

  Interest interest() const override { return {.level = Level::ops, .transfers = false}; }
  /// Throws UserError if Chakra has no node for the operation: for actors that are not ranks, and for summed-up
  /// collectives.
  void finished(const OpRun&) override;
  /// Writes PREFIX.RANK.et of each rank, and PREFIX.groups.json. Throws UserError if a file cannot be written.
  void write(const std::filesystem::path& prefix) const;

 private:
  struct Rank {
    std::string file;
    std::uint64_t nodes = 0;
    std::array<std::vector<std::uint64_t>, kMaxStreams> ended;  // ids of finished nodes, by stream
  };
  const StepRun& run_;
  std::vector<Rank> ranks_;
  std::map<std::pair<Lane, Actor>, int> groups_;          // number of each group, by lane and first member
  std::map<std::tuple<Actor, Actor, Tag>, double> tags_;  // number of each message tag: Chakra's tags have 32 bits

  void describe(const OpRun&, ChakraNode&);
  void describe_message(const OpRun&, ChakraNode&);
  void describe_join(const OpRun&, ChakraNode&);
};

void ChakraExport::finished(const OpRun& run) {
  const Op& op = *run.op;
  if (static_cast<std::size_t>(op.actor) >= ranks_.size())
    throw UserError(fmt::format("--chakra: {} takes part in the step, but a Chakra trace has only files of ranks",
                                run_.simulated_machine().actor_name(op.actor)));
  Rank& rank = ranks_[static_cast<std::size_t>(op.actor)];
  ChakraNode node;
  node.id = rank.nodes++;
  node.name = run_.names[op.name];
  node.stream = op.stream;
  for (const Dep& dep : op.deps)
    if (dep.count > 0) node.deps.push_back(rank.ended[dep.stream].at(dep.count - 1));
  if (!rank.ended[op.stream].empty()) node.deps.push_back(rank.ended[op.stream].back());
  describe(run, node);
  rank.ended[op.stream].push_back(node.id);
  append_chakra(rank.file, node);
}

void ChakraExport::describe(const OpRun& run, ChakraNode& node) {
  const Op& op = *run.op;
  switch (op.kind) {
    case Kind::compute:
    case Kind::local:
    case Kind::delay:
      node.type = ChakraType::compute;
      node.on_host = op.kind == Kind::delay ? 1 : 0;
      node.duration = (run.ended - run.started).value;
      node.flops = op.work.flops.value;
      node.tensor = op.work.bytes.value;
      break;
    case Kind::send:
    case Kind::recv:
      describe_message(run, node);
      break;
    case Kind::join:
      describe_join(run, node);
      break;
    default:
      node.type = ChakraType::metadata;
  }
}

void ChakraExport::describe_message(const OpRun& run, ChakraNode& node) {
  const Op& op = *run.op;
  const Message& m = op.message;
  const bool sends = op.kind == Kind::send;
  node.type = sends ? ChakraType::send : ChakraType::recv;
  node.source = sends ? op.actor : run.peer;
  node.destination = sends ? run.peer : op.actor;
  node.bytes = sends ? m.bytes.value : run.bytes.value;
  const auto [entry, fresh] =
      tags_.try_emplace({static_cast<Actor>(node.source), static_cast<Actor>(node.destination), m.tag},
                        static_cast<double>(tags_.size()));
  node.tag = entry->second;
  node.latency = m.extra_latency.seconds().value;
  node.rate_cap = m.rate_cap.value;
  node.steps = m.steps;
  node.mode = static_cast<double>(m.mode);
  node.path = static_cast<double>(m.path);
}

/// Describes a modelled collective, or a copy between a rank and its host, which has its simulated duration.
void ChakraExport::describe_join(const OpRun& run, ChakraNode& node) {
  const Op& op = *run.op;
  const auto [operation, whole] = collective_of(op.work);
  if (op.message.steps == 1) {
    node.type = ChakraType::load;
    node.duration = (run.ended - run.started).value;
    node.tensor = op.message.bytes.value;
    return;
  }
  if (whole.value == 0)
    throw UserError(
        "--chakra: Chakra has no node for summed-up collectives, which send no messages; plan.collectives: modelled or "
        "messages");
  const auto lane = static_cast<Lane>(op.message.slot);
  const LaneGroup& group = run_.plan.lane(lane).group(op.actor);
  const ModelledJoin join = modelled_join(operation, group.settings, static_cast<int>(group.members.size()), whole);
  const auto [entry, fresh] = groups_.try_emplace({lane, group.members.front()}, static_cast<int>(groups_.size()) + 1);
  node.type = ChakraType::collective;
  node.collective = chakra_number(operation);
  node.group = std::to_string(entry->second);
  node.share = op.message.bytes / join.bytes;
  node.bytes = rank_bytes(operation, whole.value * node.share, group.members.size());
  node.slowdown = group.settings.slowdown;
  node.launch = run_.plan.collective_launch.value;
}

void ChakraExport::write(const std::filesystem::path& prefix) const {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    write_atomically(fmt::format("{}.{}.et", prefix.string(), rank), chakra_header() + ranks_[rank].file);
  std::string groups;
  for (const auto& [key, name] : groups_)
    groups += fmt::format("{}\"{}\": [{}]", groups.empty() ? "" : ",\n ", name,
                          fmt::join(run_.plan.lane(key.first).group(key.second).members, ", "));
  write_atomically(prefix.string() + ".groups.json", "{" + groups + "}\n");
}

}  // namespace

void export_chakra(const Plan& plan, const std::filesystem::path& prefix, SimulateOptions& options) {
  if (plan.search)
    throw UserError(
        "--chakra: the steps of this scenario differ from each other, so the run itself finds how many it simulates");
  if (const double operations = estimated_operations(plan); operations > kMostOfTrace)
    throw UserError(
        fmt::format("--chakra {}: about {:.2g} million operations; at most {:.0f} million are written. Use fewer "
                    "layers, micro-batches or ranks",
                    prefix.string(), operations * 1e-6, kMostOfTrace * 1e-6));
  check_writable(prefix.string() + ".0.et");
  const auto writer = std::make_shared<std::optional<ChakraExport>>();
  options.folding = Folding::off;
  options.observe.emplace_back([writer](const StepRun& run) { return &writer->emplace(run); });
  if (!options.watch) options.watch = [](const StepRun&) {};  // makes the run simulate every operation separately
  options.after = [writer, prefix, others = options.after](const StepRun& run) {
    (*writer)->write(prefix);
    if (others) others(run);
  };
}

}  // namespace trainyard
