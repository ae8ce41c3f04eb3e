#include "strategies/collectives/collective_flows.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/error.hpp"

namespace trainyard {
namespace {

/// The sends and receives of a rank in one phase of one channel.
struct Phase {
  struct Flow {
    std::uint16_t slot;
    Bytes bytes;
  };
  std::vector<Flow> sends;
  std::vector<std::uint16_t> receives;  // slots
  std::uint32_t steps = 0;              // messages sent one after the other

  void send(const Message& message) {
    // Messages sent at once pay one latency together, and so do the pieces of a message.
    steps = message.mode == Mode::eager ? std::max(steps, 1U) : steps + message.steps;
    const auto flow = std::ranges::find(sends, message.slot, &Flow::slot);
    if (flow == sends.end())
      sends.push_back({message.slot, message.bytes});
    else
      flow->bytes += message.bytes;
  }
  void receive(std::uint16_t slot) {
    if (std::ranges::find(receives, slot) == receives.end()) receives.push_back(slot);
  }
};

using Channel = std::vector<Phase>;

/// Runs the algorithm and keeps only the sums of its messages.
std::vector<Channel> phases_of(const Collective& collective, const Local& me, Bytes size, int channels) {
  std::vector<Channel> all(static_cast<std::size_t>(channels), Channel(1));
  Emitter unseen;
  const Local shadow = me.emitting_to(unseen);
  Ops ops = collective.run(shadow, size);
  const Op* op = nullptr;
  while (ops.next(op) == Pull::op) {
    Channel& channel = all[me.channel_of(op->stream)];
    if (op->kind == Kind::send) channel.back().send(op->message);
    if (op->kind == Kind::recv) channel.back().receive(op->message.slot);
    if (op->kind == Kind::mark && op->message.steps == 0) channel.emplace_back();
  }
  return all;
}

/// The flows of one channel: each phase begins once all data of the phase before have arrived.
Ops flows_of_channel(Local me, Channel phases) {
  for (const Phase& phase : phases) {
    for (const Phase::Flow& flow : phase.sends) co_yield me.send_flow(flow.slot, flow.bytes, phase.steps);
    for (const std::uint16_t slot : phase.receives) co_yield me.recv_flow(slot);
  }
}

/// A ring through a group whose nodes have different numbers of ranks: on each node as channel_ring says.
RingOrder shifted_ring(const CollectiveSettings& settings, int shift) {
  std::vector<int> order;
  int first = 0;
  for (const int size : settings.node_sizes) {
    for (int i = 0; i < size; ++i)
      order.push_back(first + ((settings.meshed ? Numbering::zigzag(i, size) : i) + shift) % size);
    first += size;
  }
  return RingOrder(std::move(order));
}

/// Weights are whole numbers. Loads that differ are rounded to ten-thousandths of the largest one.
constexpr std::int32_t kLoadUnit = 10000;

/// Weight of the fullest member's edges.
std::int32_t full_weight(const CollectiveSettings& settings) { return settings.loads.empty() ? 1 : kLoadUnit; }

std::int32_t weight_between(const CollectiveSettings& settings, int from, int to) {
  if (settings.loads.empty()) return 1;
  return std::max(1, static_cast<std::int32_t>(std::lround(kLoadUnit * settings.load_between(from, to))));
}

/// Edges from every rank to every other one.
ModelledFlow pair_edges(const std::vector<Actor>& members, const CollectiveSettings& settings) {
  ModelledFlow flow;
  const int n = static_cast<int>(members.size());
  flow.ways = std::max(1, n - 1) * full_weight(settings);
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to)
      if (from != to) flow.edges.push_back({members[from], members[to], weight_between(settings, from, to)});
  return flow;
}

/// Adds edges between the `local` ranks of each node, of weight `inside(receiver)`, and between ranks with the same
/// place on their nodes, of weight `rail(node of the receiver)`. `reversed`: receivers send instead.
template <class Inside, class Rail>
void add_grid_edges(ModelledFlow& flow, const std::vector<Actor>& members, int local, int nodes, const Inside& inside,
                    const Rail& rail, bool reversed = false) {
  const auto add = [&](int from, int to, std::int32_t weight) {
    if (reversed) std::swap(from, to);
    flow.edges.push_back({members[from], members[to], weight});
  };
  for (int node = 0; node < nodes; ++node)
    for (int place = 0; place < local; ++place) {
      const int sender = node * local + place;
      for (int other = 0; other < local; ++other)
        if (other != place) add(sender, node * local + other, inside(node * local + other));
      for (int other = 0; other < nodes; ++other)
        if (other != node) add(sender, other * local + place, rail(other));
    }
}

/// Edges from every rank to the ranks with its own place on the other nodes, and to the other ranks on its own node.
/// `between` is the share of the bytes for the ranks of another node that leaves for that node (see
/// CollectiveModel::rows_between_nodes). If loads differ, a node gets the rows of its ranks by each rail, and passes them on
/// inside; rows come back the same way.
ModelledFlow rail_edges(const std::vector<Actor>& members, const CollectiveSettings& settings, double between) {
  constexpr double kWeightUnit = 1000;  // weights are whole numbers
  const NodeSpread spread = settings.spread(static_cast<int>(members.size()));
  const int local = spread.fewest, nodes = spread.nodes;
  ModelledFlow flow;
  flow.ways = static_cast<int>(kWeightUnit) * local * nodes;
  const auto load = [&](int member) { return settings.loads.empty() ? 1 : settings.loads[member]; };
  const auto weight = [](double share) {
    return std::max(1, static_cast<std::int32_t>(std::lround(kWeightUnit * share)));
  };
  const auto rail = [&](int node) {
    double sum = 0;
    for (int place = 0; place < local; ++place) sum += load(node * local + place);
    return weight(between * sum);
  };
  add_grid_edges(
      flow, members, local, nodes, [&](int receiver) { return weight(nodes * load(receiver)); }, rail,
      settings.returns);
  return flow;
}

/// Collects messages. A message to another node goes by the rank on the sender's node that has the receiver's place.
/// Messages between the same two ranks become one edge with the sum of their weights.
class RelayedMessages {
 public:
  RelayedMessages(const std::vector<Actor>& members, int local) : members_(members), local_(local) {}
  void message(int from, int to, std::int32_t weight = 1) {
    const int relay = from / local_ * local_ + to % local_;
    if (from / local_ == to / local_ || relay == from) {
      weights_[{from, to}] += weight;
      return;
    }
    weights_[{from, relay}] += weight;
    weights_[{relay, to}] += weight;
  }
  void put_into(ModelledFlow& flow) const {
    for (const auto& [ends, weight] : weights_)
      flow.edges.push_back({members_[ends.first], members_[ends.second], weight});
  }

 private:
  const std::vector<Actor>& members_;
  int local_;
  std::map<std::pair<int, int>, std::int32_t> weights_;
};

/// Edges of relayed messages between all pairs. A rank of the same node receives its own data and data to pass on; the
/// rank with the same place on another node receives the data of the sender's whole node.
ModelledFlow relayed_pair_edges(const std::vector<Actor>& members, const CollectiveSettings& settings, int local) {
  const int n = static_cast<int>(members.size()), nodes = n / local;
  ModelledFlow flow;
  flow.ways = (n - 1) * full_weight(settings);
  if (settings.loads.empty()) {
    add_grid_edges(
        flow, members, local, nodes, [nodes](int) { return nodes; }, [local](int) { return local; });
    return flow;
  }
  RelayedMessages relayed(members, local);
  for (int from = 0; from < n; ++from)
    for (int to = 0; to < n; ++to)
      if (from != to) relayed.message(from, to, weight_between(settings, from, to));
  relayed.put_into(flow);
  return flow;
}

/// Edges from every rank to the next one, as in nccl-tests' sendrecv. `relays` is the number of ranks on a node, if
/// messages between nodes are relayed; else 0.
ModelledFlow neighbour_edges(const std::vector<Actor>& members, int relays) {
  ModelledFlow flow;
  flow.ways = 1;
  const int n = static_cast<int>(members.size());
  RelayedMessages relayed(members, relays > 0 ? relays : n);
  for (int position = 0; position < n; ++position) relayed.message(position, (position + 1) % n);
  relayed.put_into(flow);
  return flow;
}

/// Edges from every other rank to the root, or from the root to them.
ModelledFlow star_edges(const std::vector<Actor>& members, int root, bool from_root, int relays) {
  ModelledFlow flow;
  const int n = static_cast<int>(members.size());
  flow.ways = std::max(1, n - 1);
  RelayedMessages relayed(members, relays > 0 ? relays : n);
  for (int rank = 0; rank < n; ++rank)
    if (rank != root) relayed.message(from_root ? root : rank, from_root ? rank : root);
  relayed.put_into(flow);
  return flow;
}

/// Links that can limit the rate of a collective.
constexpr std::pair<LinkKind, PathClass> kLimits[] = {{LinkKind::nvlink, PathClass::nvlink},
                                                      {LinkKind::pcie, PathClass::pcie},
                                                      {LinkKind::ici, PathClass::fabric},
                                                      {LinkKind::hca, PathClass::network}};

PathClass path_of(LinkKind kind) {
  for (const auto& [link, path] : kLimits)
    if (link == kind) return path;
  throw InternalError(fmt::format("no rate of a collective goes by {}", name_of(kind)));
}

}  // namespace

Ops flow_ops(const Collective& collective, Local me, Bytes size) {
  const int channels = collective.channels_of(me.place());
  const std::vector<Channel> all = phases_of(collective, me, size, channels);
  co_yield me.join(me.group_size());
  std::vector<Ops> parts;
  for (int k = 0; k < channels; ++k) parts.push_back(flows_of_channel(me.on_channel(k), all[k]));
  Ops together = side_by_side(me, std::move(parts));
  co_yield together;
  co_yield me.join(me.group_size());
}

int modelled_rings(const CollectiveSettings& settings, int ranks) {
  int rings = 0;
  for (const WeightedRing& ring : settings.rings)
    if (static_cast<int>(ring.order.member.size()) == ranks) rings += 2 * ring.weight;
  const NodeSpread spread = settings.spread(ranks);
  return rings > 0 ? rings : spread.nodes > 1 ? spread.fewest : 1;
}

/// Rings: if the settings have rings (a node whose GPUs are wired only to some of the others), these in both
/// directions. Otherwise as many rings as the smallest node has ranks, and each leaves a node by another rank. In a
/// network by rails, that rank has the place of the rank that receives, unless every two ranks of a node have a link of
/// their own: the zigzags through such a node enter and leave it by different adapters.
ModelledFlow modelled_flow(Operation operation, const CollectiveSettings& settings, const std::vector<Actor>& members) {
  const NodeSpread spread = settings.spread(static_cast<int>(members.size()));
  const bool even = settings.model && settings.node_sizes.empty() && spread.ranks == spread.nodes * spread.fewest;
  const int relays = even && settings.model->relays(spread) ? spread.fewest : 0;
  if (operation == Operation::all_to_all || operation == Operation::all_to_all_v) {
    const double between = even ? settings.model->rows_between_nodes(spread) : 0;
    if (between > 0) return rail_edges(members, settings, between);
    return relays > 0 ? relayed_pair_edges(members, settings, relays) : pair_edges(members, settings);
  }
  if (operation == Operation::send_recv) return neighbour_edges(members, relays);
  if (operation == Operation::gather || operation == Operation::scatter)
    return star_edges(members, settings.root, operation == Operation::scatter, relays);
  ModelledFlow flow;
  const int n = static_cast<int>(members.size());
  const bool keeps_rails = even && !settings.meshed && settings.model->keeps_rails(spread);
  RelayedMessages relayed(members, keeps_rails ? spread.fewest : n);
  const auto add = [&](const Numbering& ring, int weight) {
    flow.ways += weight;
    for (int position = 0; position < n; ++position) {
      const int from = ring.member(position), to = ring.member((position + 1) % n);
      if (keeps_rails)
        relayed.message(from, to, weight);
      else
        flow.edges.push_back({members[from], members[to], weight});
    }
  };
  for (const WeightedRing& ring : settings.rings)
    if (static_cast<int>(ring.order.member.size()) == n) {
      add(Numbering::from_ring(ring.order), ring.weight);
      add(Numbering::from_ring(ring.order).reverse(), ring.weight);
    }
  if (flow.ways > 0) return flow;
  for (int k = 0; k < modelled_rings(settings, n); ++k)
    if (settings.node_sizes.empty())
      add(channel_ring(n, settings, k), 1);
    else
      add(Numbering::from_ring(shifted_ring(settings, k)), 1);
  relayed.put_into(flow);
  return flow;
}

LinkKind limit_of(PathClass join_path) {
  for (const auto& [link, path] : kLimits)
    if (path == join_path) return link;
  throw InternalError("a collective whose rate goes by no link");
}

Work collective_work(Operation operation, Bytes size, Seconds network_latency) {
  Work work;
  work.flops = Flops{network_latency.value};
  work.bytes = size;
  work.kernel = static_cast<std::uint16_t>(operation);
  return work;
}
std::pair<Operation, Bytes> collective_of(const Work& work) {
  return {work.bytes.value > 0 ? static_cast<Operation>(work.kernel) : Operation::barrier, work.bytes};
}
Seconds network_latency_of(const Work& work) { return Seconds{work.flops.value}; }
Work scale_network_latency(Work work, double factor) {
  work.flops = work.flops * factor;
  return work;
}

ModelledJoin modelled_join(Operation operation, const CollectiveSettings& settings, int ranks, Bytes size) {
  if (!settings.model || !settings.flow) throw InternalError("a modelled collective without a model");
  const ModelledCost cost = settings.model->cost(operation, size, settings.spread(ranks));
  const int ways = settings.flow->ways;
  const double slow = settings.slowdown;
  return {cost.wire / ways, to_picoseconds(cost.latency * slow), cost.rate / (ways * slow), path_of(cost.limited_by),
          collective_work(operation, size, cost.network_latency * slow)};
}

Ops modelled_ops(Operation operation, Local me, Bytes size) {
  co_yield me.join_modelled(modelled_join(operation, me.settings(), me.group_size(), size));
}

}  // namespace trainyard
