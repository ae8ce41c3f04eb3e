#include "scenarios/src/collectives/collective_run.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <optional>

#include "scenarios/src/collectives/switch_actors.hpp"
#include "sim/error.hpp"
#include "sim/folding/folded_machine.hpp"
#include "sim/machine.hpp"
#include "sim/observers/traffic.hpp"
#include "sim/observers/values.hpp"
#include "sim/program.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/tcp_network.hpp"

namespace trainyard {
namespace {

std::vector<double> contents(const Eigen::VectorXd& v) { return {v.data(), v.data() + v.size()}; }

/// Keeps each rank's buffer after each of its receives.
void keep_steps(Values& values, CollectiveRun& run, const std::vector<Actor>& members, std::size_t ranks) {
  values.on_change(
      [&values, &run, &members, received = std::vector<std::size_t>(ranks, 0)](Actor actor, const Op& op) mutable {
        const auto rank = static_cast<std::size_t>(std::ranges::find(members, actor) - members.begin());
        if (rank >= received.size()) return;
        std::size_t& count = received[rank];
        if (op.kind == Kind::recv) ++count;
        if (count == 0) return;  // before the first receive
        if (run.steps.size() < count) run.steps.resize(count, std::vector<std::vector<double>>(received.size()));
        run.steps[count - 1][rank] = contents(values.buffer(actor, kDataBuffer));
      });
}

std::vector<std::vector<Actor>> groups_of(const CollectiveRunOptions& o) {
  if (o.ranks < 1) throw UserError(fmt::format("{} of {} ranks; at least 1", name_of(o.operation), o.ranks));
  if (!o.groups.empty()) return o.groups;
  std::vector<Actor> members = o.members;
  for (int rank = 0; o.members.empty() && rank < o.ranks; ++rank) members.push_back(rank);
  return {members};
}

/// Returns the first and the end element of a rank's block.
std::pair<Eigen::Index, Eigen::Index> block(Eigen::Index all, int rank, int ranks) {
  return Values::range(all, {0, static_cast<std::uint16_t>(rank), static_cast<std::uint16_t>(ranks)});
}

/// Returns the number of elements (of 8 bytes) that a rank receives in an all-to-all-v.
Eigen::Index received_elements(const CollectiveRunOptions& o, std::size_t rank) {
  double bytes = 0;
  for (const std::vector<double>& row : o.options.settings.amounts) bytes += row[rank];
  return static_cast<Eigen::Index>(bytes / 8);
}

/// A group on the machine: the actors of its ranks, then of its switches, and the options of all of them.
struct GroupRun {
  std::vector<Actor> actors;
  CollectiveOptions options;
};

std::vector<GroupRun> place_groups(const ClusterMachine& machine, const CollectiveRunOptions& o) {
  if (o.members.empty() && o.groups.empty() && o.ranks > machine.spec().gpus())
    throw UserError(fmt::format("{} of {} ranks, on {} GPUs", name_of(o.operation), o.ranks, machine.spec().gpus()));
  const Collective& collective = collectives(o.operation).find(o.algorithm, Place::named(name_of(o.operation)));
  std::vector<GroupRun> runs;
  for (const std::vector<Actor>& group : groups_of(o)) {
    GroupRun& run = runs.emplace_back(GroupRun{group, o.options});
    if (o.options.settings.fidelity == Fidelity::modelled) {
      std::vector<int> nodes;
      for (const Actor member : group) nodes.push_back(machine.spec().node_of_gpu(member));
      CollectiveSettings& settings = run.options.settings;
      settings.place(nodes, group);
      settings.flow = std::make_shared<ModelledFlow>(modelled_flow(o.operation, settings, group));
    }
    if (collective.switches == SwitchKind::none || o.options.settings.fidelity != Fidelity::messages) continue;
    SwitchActors switches = switch_actors(machine, collective.switches, group);
    run.options.settings.switches = std::move(switches.tree);
    run.actors.insert(run.actors.end(), switches.actors.begin(), switches.actors.end());
  }
  return runs;
}

/// The programs of all members of all groups. Other actors do nothing.
class GroupPrograms : public ProgramSource {
 public:
  /// The groups must outlive the programs.
  GroupPrograms(const ClusterMachine& machine, const std::vector<GroupRun>& groups, const CollectiveRunOptions& o,
                Names& names)
      : groups_(groups), ranks_(o.ranks), names_(names) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const CollectiveSettings& settings = groups[g].options.settings;
      collective_ =
          &find_collective(o.operation, o.algorithm, {0, o.ranks, &settings}, Place::named(name_of(o.operation)));
      for (std::size_t i = 0; i < groups[g].actors.size(); ++i) {
        const Actor actor = groups[g].actors[i];
        if (actors() <= actor) members_.resize(position(actor) + 1);
        if (members_[position(actor)].group >= 0)
          throw UserError(fmt::format("{} is in two groups: they would wait for each other on its one stream",
                                      machine.actor_name(actor)));
        members_[position(actor)] = {static_cast<int>(g), static_cast<int>(i)};
      }
    }
  }

  Actor actors() const override { return static_cast<Actor>(members_.size()); }

  ActorOutline outline(Actor actor) const override {
    const Member& me = members_[position(actor)];
    ActorOutline outline;
    if (me.group < 0) return outline;
    const GroupRun& group = groups_[me.group];
    const CollectiveSettings& settings = group.options.settings;
    const GroupPlace place{me.index, ranks_, &settings};
    outline.text = 1 + (settings.fidelity == Fidelity::modelled ? 0 : role_of(*collective_, place));
    if (settings.fidelity != Fidelity::messages)
      outline.joins.push_back({static_cast<Tag>(group.actors.front()) << (32 - kJoinBits), settings.flow.get(), 0});
    if (settings.fidelity != Fidelity::modelled)
      for (const int peer : peers_of(*collective_, place)) outline.slots.push_back(group.actors[peer]);
    return outline;
  }

  std::unique_ptr<Program> program(Actor actor) const override {
    const Member& me = members_[position(actor)];
    if (me.group < 0) return std::make_unique<ListProgram>(std::vector<Op>{});
    const GroupRun& group = groups_[me.group];
    return collective_program(*collective_, {me.index, ranks_}, group.options, names_, group.actors);
  }
  Programs all() const {
    Programs programs;
    for (Actor actor = 0; actor < actors(); ++actor) programs.push_back(program(actor));
    return programs;
  }

 private:
  struct Member {
    int group = -1, index = 0;
  };
  const std::vector<GroupRun>& groups_;
  int ranks_;
  Names& names_;
  const Collective* collective_ = nullptr;
  std::vector<Member> members_;  // indexed by actor
};

/// Traffic of every actor and link, simulated or folded.
class TrafficOfAll {
 public:
  TrafficOfAll(const Traffic& traffic, const Fold* fold) : traffic_(traffic), fold_(fold) {}
  double sent(Actor actor) const { return traffic_.sent(actor_of_rank(actor)).value; }
  double received(Actor actor) const { return traffic_.received(actor_of_rank(actor)).value; }
  double on_link(LinkId link) const {
    const LinkId simulated = fold_ ? fold_->class_of_link(link) : link;
    return simulated < 0 ? 0 : traffic_.on_link(simulated).value;
  }

 private:
  const Traffic& traffic_;
  const Fold* fold_;
  Actor actor_of_rank(Actor actor) const { return fold_ ? fold_->class_of(actor) : actor; }
};

void put_values(Values& values, const CollectiveRunOptions& o, const std::vector<Actor>& members) {
  if (o.options.settings.fidelity != Fidelity::messages)
    throw UserError(fmt::format("fidelity {} moves no values; take messages", name_of(o.options.settings.fidelity)));
  Eigen::Index all = 0;  // elements of a buffer with every rank's block
  for (const std::vector<double>& input : o.values) all += static_cast<Eigen::Index>(input.size());
  for (std::size_t rank = 0; rank < o.values.size(); ++rank) {
    const Actor actor = members[rank];
    const auto& elements = o.values[rank];
    const Eigen::VectorXd input =
        Eigen::Map<const Eigen::VectorXd>(elements.data(), static_cast<Eigen::Index>(elements.size()));
    Eigen::VectorXd& data = values.buffer(actor, kDataBuffer);
    const bool gathers = gives_block(o.operation), v = o.operation == Operation::all_to_all_v;
    data = Eigen::VectorXd::Zero(gathers ? all
                                 : v     ? std::max(received_elements(o, rank), input.size())
                                         : static_cast<Eigen::Index>(o.values.front().size()));
    if (v) data.conservativeResize(received_elements(o, rank));
    if (!o.options.in_place || v) {
      values.buffer(actor, o.options.in_place ? scratch_buffer(kDataBuffer, 1) : kInputBuffer) = input;
      const auto own_block = block(data.size(), static_cast<int>(rank), o.ranks);
      values.buffer(actor, kOutputBuffer) = Eigen::VectorXd::Zero(own_block.second - own_block.first);
    } else if (gathers) {
      const auto own_block = block(all, static_cast<int>(rank), o.ranks);
      data.segment(own_block.first, own_block.second - own_block.first) = input;
    } else {
      data.head(input.size()) = input;
    }
  }
  for (std::size_t i = static_cast<std::size_t>(o.ranks); i < members.size(); ++i)  // switches
    values.buffer(members[i], kDataBuffer) = Eigen::VectorXd::Zero(values.buffer(members.front(), kDataBuffer).size());
}

/// Returns the result of a rank.
std::vector<double> result_of(Values& values, const CollectiveRunOptions& o, Actor actor, int rank) {
  const int root = o.options.settings.root;
  const Eigen::VectorXd& data = values.buffer(actor, kDataBuffer);
  const auto own_block = block(data.size(), rank, o.ranks);
  switch (o.operation) {
    case Operation::reduce_scatter:
    case Operation::scatter:
      return o.options.in_place ? contents(data.segment(own_block.first, own_block.second - own_block.first).eval())
                                : contents(values.buffer(actor, kOutputBuffer));
    case Operation::reduce:
    case Operation::gather:
      return rank == root ? contents(data) : std::vector<double>{};
    default:
      return contents(data);
  }
}

std::string busiest_device(const ClusterMachine& machine, const TrafficOfAll& traffic) {
  LinkId most = 0;
  for (LinkId link = 1; link < static_cast<LinkId>(machine.graph().wires().size()); ++link)
    if (traffic.on_link(link) > traffic.on_link(most)) most = link;
  const DeviceGraph::End end = machine.graph().ends(most);
  const auto devices = machine.graph().devices();
  const Device& from = devices[end.from];
  return from.kind == DeviceKind::gpu ? from.name : devices[end.to].name;
}

}  // namespace

CollectiveRun run_collective_here(const ClusterSpec& cluster, const CollectiveRunOptions& o) {
  Names names;
  ClusterMachine machine(cluster, o.software);
  const std::vector<GroupRun> groups = place_groups(machine, o);
  const std::vector<Actor>& members = groups.front().actors;
  const auto ranks = static_cast<std::size_t>(o.ranks);
  CollectiveRun run;
  const GroupPrograms source(machine, groups, o, names);
  const std::vector<LinkChange> changes = o.slow.links.empty() ? background_changes(cluster.background, machine.graph())
                                                               : link_changes(o.slow, machine.links());
  std::optional<Fold> fold;
  std::optional<FoldedMachine> folded;
  const bool times_only = o.values.empty() && !o.watch;
  const bool has_switches = members.size() > ranks;
  const bool by_flows = o.transport == TransportKind::flow;          // other transports simulate every rank
  const bool is_all_to_all_v = !o.options.settings.amounts.empty();  // each member sends its own amounts
  if (o.folding != Folding::off && by_flows && times_only && !has_switches && !is_all_to_all_v) {
    fold.emplace(machine, source, changes);
    if (!fold->halves()) fold.reset();
  }
  if (fold) folded.emplace(machine, *fold);
  Machine& simulated = folded ? static_cast<Machine&>(*folded) : machine;
  Programs programs = fold ? fold->programs(source) : source.all();
  Traffic traffic(simulated.links(), fold ? fold->multiplicity() : Multiplicity{});
  std::vector<Observer*> observers{&traffic};
  Values values;
  if (o.keep_steps) keep_steps(values, run, members, ranks);
  if (!o.values.empty()) {
    put_values(values, o, members);
    observers.push_back(&values);
  }
  if (o.watch) o.watch(observers, values, machine);
  std::optional<PacketNetwork> packets;
  if (o.transport == TransportKind::packets) packets = tcp_network(machine, o.port_buffer);
  const SimulationResult end = run_programs(simulated, std::move(programs),
                                            {.observers = observers,
                                             .link_changes = fold ? fold->changes(changes) : changes,
                                             .transport = o.transport,
                                             .packets = packets ? &*packets : nullptr});
  const TrafficOfAll all_traffic(traffic, fold ? &*fold : nullptr);
  run.time = end.end.value;
  run.messages = static_cast<std::uint64_t>(traffic.messages());
  run.total = traffic.total().value;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    run.sent.push_back(all_traffic.sent(members[rank]));
    run.received.push_back(all_traffic.received(members[rank]));
    if (o.values.empty()) continue;
    run.values.push_back(result_of(values, o, members[rank], static_cast<int>(rank)));
    if (!o.options.in_place) run.inputs.push_back(contents(values.buffer(members[rank], kInputBuffer)));
  }
  run.hazards = values.hazards();
  for (LinkId link = 0; link < static_cast<LinkId>(machine.links().size()); ++link) {
    const double bytes = all_traffic.on_link(link);
    if (bytes > 0) run.links[machine.links()[position(link)].name] = bytes;
    if (machine.graph().is_wire(link) && scope_of(machine.graph().kind(link)) == LinkScope::fabric)
      run.crossings += bytes;
  }
  run.busiest_device = busiest_device(machine, all_traffic);
  return run;
}

CollectiveRun run_collective(const ClusterSpec& cluster, const CollectiveRunOptions& options) {
  try {
    return run_collective_here(cluster, options);
  } catch (const Deadlock&) {
    if (options.folding == Folding::off) throw;
    CollectiveRunOptions unfolded = options;
    unfolded.folding = Folding::off;
    return run_collective_here(cluster, unfolded);
  }
}

ModelledTimes::ModelledTimes(const ClusterSpec& cluster, const SoftwareStack& software, Operation operation,
                             const CollectiveSettings& settings, int ranks)
    : operation_(operation), settings_(settings), ranks_(ranks) {
  const ClusterMachine machine(cluster, software);
  std::vector<Actor> members;
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    members.push_back(rank);
    nodes.push_back(cluster.node_of_gpu(rank));
  }
  settings_.place(nodes);
  const auto flow = std::make_shared<ModelledFlow>(modelled_flow(operation, settings_, members));
  settings_.flow = flow;
  const GroupRoute route = route_of_group(machine, *flow);
  if (!route.reachable) throw UserError(std::string(name_of(operation)) + ": some ranks do not reach each other");
  for (const LinkUse& use : route.links)
    seconds_per_byte_ =
        std::max(seconds_per_byte_, use.weight / machine.links()[static_cast<std::size_t>(use.link)].capacity.value);
}

Seconds ModelledTimes::time(Bytes size) const {
  const ModelledJoin join = modelled_join(operation_, settings_, ranks_, size);
  const Seconds latency = join.latency.seconds();
  if (join.bytes.value <= 0) return latency;
  const double by_rate = join.rate.value > 0 ? 1 / join.rate.value : 0;
  return latency + Seconds{join.bytes.value * std::max(by_rate, seconds_per_byte_)};
}

}  // namespace trainyard
