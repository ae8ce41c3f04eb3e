#include "strategies/collectives/collective_flows.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/error.hpp"

namespace trainyard {
namespace {

/// What a rank sends and receives in one phase of one channel.
struct Phase {
  struct Flow {
    std::uint16_t slot;
    Bytes bytes;
  };
  std::vector<Flow> sends;
  std::vector<std::uint16_t> receives;  // slots
  std::uint32_t steps = 0;              // messages sent one after the other

  void send(std::uint16_t slot, Bytes bytes, Mode mode) {
    steps = mode == Mode::eager ? std::max(steps, 1U) : steps + 1;  // those that go at once pay one latency together
    const auto at = std::find_if(sends.begin(), sends.end(), [slot](const Flow& f) { return f.slot == slot; });
    if (at == sends.end())
      sends.push_back({slot, bytes});
    else
      at->bytes += bytes;
  }
  void receive(std::uint16_t slot) {
    if (std::find(receives.begin(), receives.end(), slot) == receives.end()) receives.push_back(slot);
  }
};

using Channel = std::vector<Phase>;

/// Runs through the algorithm and keeps the sums only.
std::vector<Channel> phases_of(const Collective& collective, const Local& me, Bytes size, int channels) {
  std::vector<Channel> all(static_cast<std::size_t>(channels), Channel(1));
  Emitter unseen;
  const Local shadow = me.emitting_to(unseen);
  Ops ops = collective.run(shadow, size);
  const Op* op = nullptr;
  while (ops.next(op) == Pull::op) {
    Channel& channel = all[me.channel_of(op->stream)];
    if (op->kind == Kind::send) channel.back().send(op->message.slot, op->message.bytes, op->message.mode);
    if (op->kind == Kind::recv) channel.back().receive(op->message.slot);
    if (op->kind == Kind::mark && op->message.steps == 0) channel.emplace_back();
  }
  return all;
}

/// One channel: each phase begins when all of the one before has come.
Ops flows_of_channel(Local me, Channel phases) {
  for (const Phase& phase : phases) {
    for (const Phase::Flow& flow : phase.sends) co_yield me.send_flow(flow.slot, flow.bytes, phase.steps);
    for (const std::uint16_t slot : phase.receives) co_yield me.recv_flow(slot);
  }
}

}  // namespace

Ops flow_ops(const Collective& collective, Local me, Bytes size) {
  const int channels = collective.channels_of({0, me.group_size(), &me.settings()});
  const std::vector<Channel> all = phases_of(collective, me, size, channels);
  co_yield me.join(me.group_size());
  std::vector<Ops> parts;
  for (int k = 0; k < channels; ++k) parts.push_back(flows_of_channel(me.on_channel(k), all[k]));
  Ops together = side_by_side(me, std::move(parts));
  co_yield together;
  co_yield me.join(me.group_size());
}

namespace {

/// A ring through a group whose nodes have different numbers of ranks: on each node it begins `shift` ranks further on.
RingOrder shifted_ring(const std::vector<int>& node_sizes, int shift) {
  std::vector<int> order;
  int first = 0;
  for (const int size : node_sizes) {
    for (int i = 0; i < size; ++i) order.push_back(first + (i + shift) % size);
    first += size;
  }
  return RingOrder(std::move(order));
}

/// Every rank to every other one.
ModelledFlow pairs(const std::vector<Actor>& members) {
  ModelledFlow flow;
  flow.ways = std::max(1, static_cast<int>(members.size()) - 1);
  for (const Actor from : members)
    for (const Actor to : members)
      if (from != to) flow.edges.push_back({from, to, 1});
  return flow;
}

/// Every rank to those with its own place on the other nodes, with so much of what a node's ranks are given, and to the
/// others on its own node.
ModelledFlow by_rails(const std::vector<Actor>& members, const CollectiveSettings& settings, double between) {
  constexpr double kWeightUnit = 1000;  // weights are whole numbers
  const NodeSpread spread = settings.spread(static_cast<int>(members.size()));
  const int local = spread.fewest, nodes = spread.nodes;
  ModelledFlow flow;
  flow.ways = static_cast<int>(kWeightUnit) * local * nodes;
  const auto inside = static_cast<std::int32_t>(kWeightUnit) * nodes;
  const auto rail = static_cast<std::int32_t>(std::lround(kWeightUnit * between * local));
  const auto member = [&](int node, int at) { return members[static_cast<std::size_t>(node * local + at)]; };
  for (int node = 0; node < nodes; ++node)
    for (int at = 0; at < local; ++at) {
      for (int other = 0; other < local; ++other)
        if (other != at) flow.edges.push_back({member(node, at), member(node, other), inside});
      for (int other = 0; other < nodes; ++other)
        if (other != node) flow.edges.push_back({member(node, at), member(other, at), rail});
    }
  return flow;
}

/// Messages of which those to another node go by the rank on their own node that has the receiver's place there. Edges
/// between the same two are one, of the sum of the weights.
class Relayed {
 public:
  Relayed(const std::vector<Actor>& members, int local) : members_(members), local_(local) {}
  void message(int from, int to) {
    const int relay = from / local_ * local_ + to % local_;
    if (from / local_ == to / local_ || relay == from) {
      ++weights_[{from, to}];
      return;
    }
    ++weights_[{from, relay}];
    ++weights_[{relay, to}];
  }
  void put_into(ModelledFlow& flow) const {
    for (const auto& [ends, weight] : weights_)
      flow.edges.push_back(
          {members_[static_cast<std::size_t>(ends.first)], members_[static_cast<std::size_t>(ends.second)], weight});
  }

 private:
  const std::vector<Actor>& members_;
  int local_;
  std::map<std::pair<int, int>, std::int32_t> weights_;
};

/// All pairs by such ways: to each rank of the own node what is for it and what it passes on, to each on one's own place
/// of the other nodes what all of the own node send it.
ModelledFlow relayed_pairs(const std::vector<Actor>& members, int local) {
  const int n = static_cast<int>(members.size()), nodes = n / local;
  ModelledFlow flow;
  flow.ways = n - 1;
  const auto member = [&](int node, int at) { return members[static_cast<std::size_t>(node * local + at)]; };
  for (int node = 0; node < nodes; ++node)
    for (int at = 0; at < local; ++at) {
      for (int other = 0; other < local; ++other)
        if (other != at) flow.edges.push_back({member(node, at), member(node, other), nodes});
      for (int other = 0; other < nodes; ++other)
        if (other != node) flow.edges.push_back({member(node, at), member(other, at), local});
    }
  return flow;
}

/// Every rank to the next one, as nccl-tests' sendrecv. `relays`: ranks of a node, by which messages between nodes are
/// passed on; 0: by none.
ModelledFlow neighbours(const std::vector<Actor>& members, int relays) {
  ModelledFlow flow;
  flow.ways = 1;
  const int n = static_cast<int>(members.size());
  Relayed relayed(members, relays > 0 ? relays : n);
  for (int at = 0; at < n; ++at) relayed.message(at, (at + 1) % n);
  relayed.put_into(flow);
  return flow;
}

/// Every other rank to the root, or from it.
ModelledFlow star(const std::vector<Actor>& members, int root, bool from_root, int relays) {
  ModelledFlow flow;
  const int n = static_cast<int>(members.size());
  flow.ways = std::max(1, n - 1);
  Relayed relayed(members, relays > 0 ? relays : n);
  for (int rank = 0; rank < n; ++rank)
    if (rank != root) relayed.message(from_root ? root : rank, from_root ? rank : root);
  relayed.put_into(flow);
  return flow;
}

}  // namespace

/// The rings: those of a node whose GPUs are wired to some of the others only, both ways round; else as many as a node
/// has ranks (the smallest one), which leave it by another one each.
ModelledFlow modelled_flow(Operation operation, const CollectiveSettings& settings, const std::vector<Actor>& members) {
  const NodeSpread lie = settings.spread(static_cast<int>(members.size()));
  const bool even = settings.model && settings.node_sizes.empty() && lie.ranks == lie.nodes * lie.fewest;
  const int relays = even && settings.model->relays(lie) ? lie.fewest : 0;
  if (operation == Operation::all_to_all || operation == Operation::all_to_all_v) {
    const double between = even ? settings.model->rows_between_nodes(lie) : 0;
    if (between > 0) return by_rails(members, settings, between);
    return relays > 0 ? relayed_pairs(members, relays) : pairs(members);
  }
  if (operation == Operation::send_recv) return neighbours(members, relays);
  if (operation == Operation::gather || operation == Operation::scatter)
    return star(members, settings.root, operation == Operation::scatter, relays);
  ModelledFlow flow;
  const int n = static_cast<int>(members.size());
  const auto add = [&](const Numbering& ring, int weight) {
    flow.ways += weight;
    for (int at = 0; at < n; ++at)
      flow.edges.push_back({members[ring.member(at)], members[ring.member((at + 1) % n)], weight});
  };
  for (const WeightedRing& ring : settings.rings)
    if (static_cast<int>(ring.order.member.size()) == n) {
      add(Numbering::along(ring.order), ring.weight);
      add(Numbering::along(ring.order).reversed(), ring.weight);
    }
  if (flow.ways > 0) return flow;
  const int rings = lie.nodes > 1 ? lie.fewest : 1;
  for (int k = 0; k < rings; ++k)
    if (settings.node_sizes.empty())
      add(channel_ring(n, settings, k), 1);
    else
      add(Numbering::along(shifted_ring(settings.node_sizes, k)), 1);
  return flow;
}

namespace {

PathClass path_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
      return PathClass::nvlink;
    case LinkKind::pcie:
      return PathClass::pcie;
    case LinkKind::ici:
      return PathClass::fabric;
    case LinkKind::hca:
      return PathClass::network;
    default:
      throw InternalError(fmt::format("no rate of a collective goes by {}", name_of(kind)));
  }
}

}  // namespace

LinkKind limit_of(PathClass of_join) {
  for (const LinkKind kind : {LinkKind::nvlink, LinkKind::pcie, LinkKind::ici, LinkKind::hca})
    if (path_of(kind) == of_join) return kind;
  throw InternalError("a collective whose rate goes by no link");
}

Work of_collective(Operation operation, Bytes size) {
  Work work;
  work.bytes = size;
  work.kernel = static_cast<std::uint16_t>(operation);
  return work;
}
std::pair<Operation, Bytes> collective_of(const Work& work) {
  return {work.bytes.value > 0 ? static_cast<Operation>(work.kernel) : Operation::barrier, work.bytes};
}

ModelledJoin modelled_join(Operation operation, const CollectiveSettings& settings, int ranks, Bytes size) {
  if (!settings.model || !settings.flow) throw InternalError("a modelled collective without a model");
  const ModelledCost cost = settings.model->cost(operation, size, settings.spread(ranks));
  const int ways = settings.flow->ways;
  const double slow = settings.slowdown;
  return {cost.wire / ways, to_picoseconds(cost.latency * slow), cost.rate / (ways * slow), path_of(cost.limited_by),
          of_collective(operation, size)};
}

Ops modelled_ops(Operation operation, Local me, Bytes size) {
  co_yield me.join_modelled(modelled_join(operation, me.settings(), me.group_size(), size));
}

}  // namespace trainyard
