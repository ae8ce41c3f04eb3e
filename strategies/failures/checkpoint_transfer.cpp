#include "strategies/failures/checkpoint_transfer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/executor/simulation.hpp"
#include "sim/index.hpp"
#include "sim/observer.hpp"
#include "sim/program.hpp"
#include "topologies/machines/storage_machine.hpp"

namespace trainyard {
namespace {

/// The route of a share, through the memory of a CPU socket.
struct ShareRoute {
  Actor rank = 0, host = 0, store = 0;
  Bytes bytes;
};

/// Returns the socket that a GPU is attached to: the one with the lowest latency.
DeviceId socket_of(const ClusterMachine& machine, DeviceId gpu) {
  const int node = machine.graph().devices()[gpu].node;
  const std::vector<DeviceId> cpus = machine.graph().devices_of_kind(DeviceKind::cpu, node);
  const auto wires = [&](DeviceId cpu) {
    return machine.path(machine.actor(gpu), machine.actor(cpu), PathClass::automatic).latency();
  };
  return *std::ranges::min_element(cpus, [&](DeviceId a, DeviceId b) { return wires(a) < wires(b); });
}

/// The operations of all actors of a machine. Most actors have none.
class Actors {
 public:
  explicit Actors(Actor count) : plans_(static_cast<std::size_t>(count)) {}
  std::size_t peer(Actor actor, Actor other) {
    std::vector<Actor>& slots = plans_[actor].slots;
    slots.push_back(other);
    return slots.size() - 1;
  }
  /// Returns a stream of its own for each message, so that no message waits for another. If there are more messages
  /// than streams, later ones wait for earlier ones, in the same order everywhere.
  std::size_t stream(Actor actor) { return plans_[actor].streams++ % kMaxStreams; }
  void add(Actor actor, const Op& op) { plans_[actor].ops.push_back(op); }
  Programs take_programs() {
    Programs programs;
    for (ActorPlan& plan : plans_)
      programs.push_back(
          std::make_unique<ListProgram>(std::move(plan.ops), std::move(plan.slots),
                                        static_cast<int>(std::clamp<std::size_t>(plan.streams, 1, kMaxStreams))));
    return programs;
  }

 private:
  struct ActorPlan {
    std::vector<Op> ops;
    std::vector<Actor> slots;
    std::size_t streams = 0;
  };
  IndexedVector<ActorPlan, Actor> plans_;
};

/// One side of a rendezvous message.
Op message_op(Kind kind, std::size_t stream, std::size_t slot, Tag tag, Bytes bytes) {
  Op op{.stream = static_cast<Stream>(stream), .kind = kind, .message = {.bytes = bytes}};
  op.address(slot, tag);
  return op;
}

/// Adds a message. Returns the stream on which it is received.
std::size_t add_message(Actors& actors, Actor from, Actor to, Tag tag, Bytes bytes) {
  actors.add(from, message_op(Kind::send, actors.stream(from), actors.peer(from, to), tag, bytes));
  const std::size_t in = actors.stream(to);
  actors.add(to, message_op(Kind::recv, in, actors.peer(to, from), tag, bytes));
  return in;
}

/// Returns the number of devices of a machine that send or receive.
Actor sending_devices(const ClusterMachine& machine) {
  return static_cast<Actor>(std::ranges::count_if(machine.graph().devices(), [](const Device& device) {
    return device.kind != DeviceKind::hca && device.kind != DeviceKind::pcie_switch;
  }));
}

/// Adds the messages of a share: from one end to the host and, once it has arrived completely, to the other end.
void add_passage(Actors& actors, const ShareRoute& p, bool write) {
  const Actor from = write ? p.rank : p.store, to = write ? p.store : p.rank;
  const Tag tag = static_cast<Tag>(p.rank) + 1;
  const std::size_t in = add_message(actors, from, p.host, tag, p.bytes);
  Op out = message_op(Kind::send, actors.stream(p.host), actors.peer(p.host, to), tag, p.bytes);
  out.deps[0] = {1, static_cast<Stream>(in)};
  actors.add(p.host, out);
  actors.add(to, message_op(Kind::recv, actors.stream(to), actors.peer(to, p.host), tag, p.bytes));
}

/// Observes the end of the last operation of a rank: by then all shares have left the GPUs.
class LastOfRanks : public Observer {
 public:
  explicit LastOfRanks(Actor ranks) : ranks_(ranks) {}
  void finished(const OpRun& run) override {
    if (run.op->actor < ranks_) last_ = std::max(last_, run.ended);
  }
  Interest interest() const override { return {.transfers = false}; }
  Seconds last() const { return last_; }

 private:
  Actor ranks_;
  Seconds last_;
};

/// The machine with the store, and the route of every share.
struct CheckpointMachine {
  ClusterMachine cluster;
  std::optional<StorageMachine> shared;
  std::vector<ShareRoute> routes;
  Actor actors = 0;

  CheckpointMachine(const ClusterSpec& spec, const SoftwareStack& stack, const CheckpointPlan& plan)
      : cluster(spec, stack) {
    if (plan.store) shared.emplace(cluster, *plan.store);
    actors = shared ? shared->actors() : sending_devices(cluster);
    std::map<Actor, std::size_t> doors;
    if (shared)
      for (std::size_t i = 0; i < shared->sockets().size(); ++i) doors[shared->sockets()[i]] = i;
    for (const CheckpointPlan::Share& share : plan.shares) {
      ShareRoute& p = routes.emplace_back();
      p.rank = share.rank;
      p.bytes = share.bytes;
      p.host = cluster.actor(socket_of(cluster, cluster.device(share.rank)));
      p.store = shared ? shared->door(doors.at(p.host)) : drive_of(share.rank);
    }
  }

  Actor drive_of(Actor rank) const {
    const Device& gpu = cluster.graph().devices()[cluster.device(rank)];
    const std::vector<DeviceId> drives = cluster.graph().devices_of_kind(DeviceKind::nvme, gpu.node);
    if (drives.empty())
      fail(cluster.spec().place, fmt::format("a checkpoint on local drives, but {} has none (set nvme: {{count, …}})",
                                             cluster.spec().type_of(gpu.node).name));
    return cluster.actor(drives[static_cast<std::size_t>(gpu.index) % drives.size()]);
  }
  Machine& machine() { return shared ? static_cast<Machine&>(*shared) : cluster; }
  /// Programs that move every share to its store, or back.
  Programs programs(bool write) const {
    Actors all(actors);
    for (const ShareRoute& p : routes) add_passage(all, p, write);
    return all.take_programs();
  }
};

void check_capacity(const CheckpointMachine& site, const CheckpointPlan& plan) {
  std::map<Actor, Bytes> stored;
  for (const ShareRoute& p : site.routes) stored[plan.store ? 0 : p.store] += p.bytes;
  for (const auto& [store, bytes] : stored) {
    const Bytes capacity = plan.store ? plan.store->capacity
                                      : site.cluster.spec()
                                            .type_of(site.cluster.graph().devices()[site.cluster.device(store)].node)
                                            .nvme.capacity;
    if (capacity.value > 0 && bytes > capacity)
      throw UserError(fmt::format("{} of a checkpoint on {}, which holds {}", show(bytes),
                                  plan.store ? plan.store->name : site.cluster.actor_name(store), show(capacity)));
  }
}

}  // namespace

std::vector<CheckpointPlan::Share> checkpoint_shares(Bytes state, int ranks, bool sharded,
                                                     const std::vector<Actor>& holders) {
  std::vector<CheckpointPlan::Share> shares;
  if (sharded)
    for (Actor rank = 0; rank < ranks; ++rank) shares.push_back({rank, state / ranks});
  else
    for (const Actor rank : holders) shares.push_back({rank, state / static_cast<double>(holders.size())});
  return shares;
}

CheckpointWrite simulate_checkpoint_write(const ClusterSpec& spec, const SoftwareStack& stack,
                                          const CheckpointPlan& plan) {
  CheckpointMachine site(spec, stack, plan);
  CheckpointWrite result;
  check_capacity(site, plan);
  LastOfRanks last(spec.gpus());
  result.write = run_programs(site.machine(), site.programs(true), {{&last}}).end;
  result.snapshot = last.last();
  return result;
}

Seconds simulate_checkpoint_load(const ClusterSpec& spec, const SoftwareStack& stack, const CheckpointPlan& plan) {
  CheckpointMachine site(spec, stack, plan);
  return run_programs(site.machine(), site.programs(false)).end;
}

Seconds simulate_host_copies(ClusterSpec spec, Bytes bytes) {
  spec.nodes = 1;
  ClusterMachine machine(spec, SoftwareStack{});
  Seconds time;
  for (const bool leaves : {true, false}) {
    Actors all(sending_devices(machine));
    for (Actor gpu = 0; gpu < spec.node.gpus; ++gpu) {
      const Actor host = machine.actor(socket_of(machine, machine.device(gpu)));
      add_message(all, leaves ? gpu : host, leaves ? host : gpu, static_cast<Tag>(gpu) + 1, bytes);
    }
    time += run_programs(machine, all.take_programs()).end;
  }
  return time;
}

}  // namespace trainyard
