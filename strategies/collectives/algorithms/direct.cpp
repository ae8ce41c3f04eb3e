// Direct: every rank exchanges data with every other one, without relays. All pairs run at once, or one after the
// other in an order in which no rank receives from two: shifted (in step k each rank sends k places ahead) or by
// exclusive or (pairs exchange; Thakur, Rabenseifner & Gropp 2005).

#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

enum class Order { at_once, shift, exclusive_or };

/// The partners of a rank: in step k, from 1 to `steps()`, it sends to `receiver(k)` and receives from `sender(k)`. −1:
/// it has no partner in this step.
struct Partners {
  Order order;
  int index, size;
  int steps() const {
    if (order != Order::exclusive_or) return size - 1;
    int power = 1;
    while (power < size) power *= 2;
    return power - 1;
  }
  int receiver(int step) const { return order == Order::exclusive_or ? partner(step) : (index + step) % size; }
  int sender(int step) const { return order == Order::exclusive_or ? partner(step) : (index + size - step) % size; }

 private:
  int partner(int step) const { return (index ^ step) < size ? index ^ step : -1; }
};

/// The chunks that a rank sends to each other member and receives from it.
struct Exchange {
  Chunk (*sent)(const Local&, int peer);
  Chunk (*received)(const Local&, int peer);
  bool adds = false;  ///< adds the received data to its own
};

Ops exchange_with_all(Local me, Order order, Exchange data) {
  const Partners partners{order, me.index(), me.group_size()};
  const auto receive = [&me, data](int from) -> const Op& {
    return data.adds ? me.recv_reduce(from, data.received(me, from)) : me.recv_copy(from, data.received(me, from));
  };
  const bool at_once = order == Order::at_once;
  for (int step = 1; step <= partners.steps(); ++step) {
    const int to = partners.receiver(step), from = partners.sender(step);
    if (to >= 0 && at_once) co_yield me.send_at_once(to, data.sent(me, to));
    if (to >= 0 && !at_once) co_yield me.send(to, data.sent(me, to));
    if (from >= 0 && !at_once) co_yield receive(from);
  }
  for (int step = 1; at_once && step <= partners.steps(); ++step) co_yield receive(partners.sender(step));
}

Chunk rank_block(const Local& me, int) { return me.block(me.index()); }
Chunk peer_block(const Local& me, int peer) { return me.block(peer); }

/// Each rank adds up one block, which all others send to it. n−1 messages of `size`/n out and in.
Ops direct_reduce_scatter(Local me, Order order) {
  return exchange_with_all(me, order, {.sent = peer_block, .received = rank_block, .adds = true});
}
/// Each rank gives its block to all others.
Ops direct_all_gather(Local me, Order order) {
  return exchange_with_all(me, order, {.sent = rank_block, .received = peer_block});
}
/// A parameter server that is divided among the ranks.
Ops direct_all_reduce(Local me, Order order) {
  co_yield direct_reduce_scatter(me, order);
  co_yield me.phase();
  co_yield direct_all_gather(me, order);
}
/// n−1 messages out and in; the rank's own block stays.
Ops direct_all_to_all(Local me, Order order) {
  co_yield me.copy(me.outgoing(me.index()), me.incoming(me.index()));
  co_yield exchange_with_all(me, order,
                             {.sent = [](const Local& rank, int peer) { return rank.outgoing(peer); },
                              .received = [](const Local& rank, int peer) { return rank.incoming(peer); }});
}

struct RegisterDirect {
  RegisterDirect(const char* name, Order order) {
    // With exclusive or, a rank's partners depend on its number; otherwise all ranks do the same.
    const auto role = order == Order::exclusive_or ? nullptr : all_alike;
    const auto add = [=](Operation operation, Ops (*run)(Local, Order), std::vector<int> (*its_role)(GroupPlace)) {
      RegisterCollective{operation,
                         {.name = name,
                          .peers = all_others,
                          .run = [=](Local me, Bytes) { return run(me, order); },
                          .steady = true,
                          .role = its_role}};
    };
    add(Operation::all_reduce, direct_all_reduce, role);
    add(Operation::reduce_scatter, direct_reduce_scatter, role);
    add(Operation::all_gather, direct_all_gather, role);
    add(Operation::all_to_all, direct_all_to_all, role);
    add(Operation::all_to_all_v, direct_all_to_all, nullptr);  // amounts differ by rank
  }
};
const RegisterDirect register_direct[] = {
    {"direct", Order::at_once}, {"pairwise-shift", Order::shift}, {"pairwise-xor", Order::exclusive_or}};

/// Each rank sends all of its data to every other rank, and adds up what it receives: one step, n(n−1) messages of
/// `size`. It sends a copy, since the sum grows while sends are under way.
Ops parallel_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  co_yield me.copy(me.whole_chunk(), Local::scratch(me.whole_chunk()));
  for (int step = 1; step < n; ++step)
    co_yield me.send_at_once((me.index() + step) % n, Local::scratch(me.whole_chunk()));
  for (int step = 1; step < n; ++step) co_yield me.recv_reduce((me.index() + n - step) % n, me.whole_chunk());
}

TRAINYARD_COLLECTIVE("parallel", Operation::all_reduce, all_others, parallel_all_reduce);

}  // namespace

}  // namespace trainyard
