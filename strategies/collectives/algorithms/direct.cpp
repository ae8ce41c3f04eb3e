// Direct: every rank exchanges data with every other one, without relays. All pairs run at once, or one after the
// other in an order in which no rank receives from two: shifted (in step k each rank sends k places ahead) or by
// exclusive or (pairs exchange; Thakur, Rabenseifner & Gropp 2005).
#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

enum class Order { at_once, shift, exclusive_or };

/// The number of steps, and the partner of a rank in step k = 1, …; −1: no partner.
struct Meetings {
  Order order;
  int index, size;
  int steps() const {
    if (order != Order::exclusive_or) return size - 1;
    int power = 1;
    while (power < size) power *= 2;
    return power - 1;
  }
  int to(int step) const { return order == Order::exclusive_or ? partner(step) : (index + step) % size; }
  int from(int step) const { return order == Order::exclusive_or ? partner(step) : (index + size - step) % size; }

 private:
  int partner(int step) const { return (index ^ step) < size ? index ^ step : -1; }
};

template <Order order>
const Op& give(Local& me, int to, const Chunk& chunk) {
  return order == Order::at_once ? me.send_at_once(to, chunk) : me.send(to, chunk);
}

/// Each rank adds up one block, which all others send to it. n−1 messages of `size`/n out and in.
template <Order order>
Ops blocks_to_owners(Local me) {
  const Meetings meet{order, me.index(), me.group_size()};
  for (int step = 1; step <= meet.steps(); ++step) {
    if (meet.to(step) >= 0) co_yield give<order>(me, meet.to(step), me.block(meet.to(step)));
    if (order != Order::at_once && meet.from(step) >= 0) co_yield me.recv_reduce(meet.from(step), me.block(me.index()));
  }
  for (int step = 1; order == Order::at_once && step <= meet.steps(); ++step)
    co_yield me.recv_reduce(meet.from(step), me.block(me.index()));
}

/// Each rank gives its block to all others.
template <Order order>
Ops blocks_to_all(Local me) {
  const Meetings meet{order, me.index(), me.group_size()};
  for (int step = 1; step <= meet.steps(); ++step) {
    if (meet.to(step) >= 0) co_yield give<order>(me, meet.to(step), me.block(me.index()));
    if (order != Order::at_once && meet.from(step) >= 0)
      co_yield me.recv_copy(meet.from(step), me.block(meet.from(step)));
  }
  for (int step = 1; order == Order::at_once && step <= meet.steps(); ++step)
    co_yield me.recv_copy(meet.from(step), me.block(meet.from(step)));
}

/// A parameter server that is divided among the ranks.
template <Order order>
Ops direct_all_reduce(Local me, Bytes) {
  co_yield blocks_to_owners<order>(me);
  co_yield me.phase();
  co_yield blocks_to_all<order>(me);
}
template <Order order>
Ops direct_reduce_scatter(Local me, Bytes) {
  co_yield blocks_to_owners<order>(me);
}
template <Order order>
Ops direct_all_gather(Local me, Bytes) {
  co_yield blocks_to_all<order>(me);
}

/// n−1 messages out and in; the rank's own block stays.
template <Order order>
Ops direct_all_to_all(Local me, Bytes) {
  const Meetings meet{order, me.index(), me.group_size()};
  co_yield me.copy(me.outgoing(me.index()), me.incoming(me.index()));
  for (int step = 1; step <= meet.steps(); ++step) {
    if (meet.to(step) >= 0) co_yield give<order>(me, meet.to(step), me.outgoing(meet.to(step)));
    if (order != Order::at_once && meet.from(step) >= 0)
      co_yield me.recv_copy(meet.from(step), me.incoming(meet.from(step)));
  }
  for (int step = 1; order == Order::at_once && step <= meet.steps(); ++step)
    co_yield me.recv_copy(meet.from(step), me.incoming(meet.from(step)));
}

/// With exclusive or, a rank's partners depend on its number; otherwise all ranks do the same.
constexpr std::vector<int> (*role_by(Order order))(GroupPlace) {
  return order == Order::exclusive_or ? nullptr : all_alike;
}

RegisterCollective direct_registration(Operation operation, const char* name, Ops (*run)(Local, Bytes),
                                       std::vector<int> (*role)(GroupPlace)) {
  return {operation, {.name = name, .peers = all_others, .run = run, .steady = true, .role = role}};
}

#define DIRECT(NAME, ORDER)                                                                                     \
  const RegisterCollective register_##ORDER[] = {                                                               \
      direct_registration(Operation::all_reduce, NAME, direct_all_reduce<Order::ORDER>, role_by(Order::ORDER)), \
      direct_registration(Operation::reduce_scatter, NAME, direct_reduce_scatter<Order::ORDER>,                 \
                          role_by(Order::ORDER)),                                                               \
      direct_registration(Operation::all_gather, NAME, direct_all_gather<Order::ORDER>, role_by(Order::ORDER)), \
      direct_registration(Operation::all_to_all, NAME, direct_all_to_all<Order::ORDER>, role_by(Order::ORDER)), \
      direct_registration(Operation::all_to_all_v, NAME, direct_all_to_all<Order::ORDER>, nullptr)}

DIRECT("direct", at_once);
DIRECT("pairwise-shift", shift);
DIRECT("pairwise-xor", exclusive_or);
#undef DIRECT

}  // namespace
}  // namespace trainyard
