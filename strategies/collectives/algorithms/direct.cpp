// Direct: every rank exchanges with every other one, without relay. All pairs at once, or one after the other in an order
// in which nobody is sent to by two: shifted (in step k everybody sends k places further) or by exclusive or (pairs
// exchange; Thakur, Rabenseifner & Gropp 2005).
#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

enum class Order { at_once, shift, exclusive_or };

/// How many steps there are, and whom a rank meets in step k = 1 …; −1: nobody.
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

/// Everybody adds up one block of all, which the others send it. n−1 messages of `size`/n out and in.
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

/// Everybody gives its block to all others.
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

/// A parameter server that is split over the ranks.
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

/// n−1 messages out and in, and the own block stays.
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

/// Whom a rank meets by exclusive or depends on its number; otherwise all do the same.
constexpr std::vector<int> (*role_by(Order order))(GroupPlace) {
  return order == Order::exclusive_or ? nullptr : all_alike;
}

#define DIRECT(NAME, ORDER)                         \
  const RegisterCollective register_##ORDER[] = {   \
      {Operation::all_reduce,                       \
       {.name = NAME,                               \
        .peers = all_others,                        \
        .run = direct_all_reduce<Order::ORDER>,     \
        .steady = true,                             \
        .role = role_by(Order::ORDER)}},            \
      {Operation::reduce_scatter,                   \
       {.name = NAME,                               \
        .peers = all_others,                        \
        .run = direct_reduce_scatter<Order::ORDER>, \
        .steady = true,                             \
        .role = role_by(Order::ORDER)}},            \
      {Operation::all_gather,                       \
       {.name = NAME,                               \
        .peers = all_others,                        \
        .run = direct_all_gather<Order::ORDER>,     \
        .steady = true,                             \
        .role = role_by(Order::ORDER)}},            \
      {Operation::all_to_all,                       \
       {.name = NAME,                               \
        .peers = all_others,                        \
        .run = direct_all_to_all<Order::ORDER>,     \
        .steady = true,                             \
        .role = role_by(Order::ORDER)}},            \
      {Operation::all_to_all_v,                     \
       {.name = NAME, .peers = all_others, .run = direct_all_to_all<Order::ORDER>, .steady = true}}}

DIRECT("direct", at_once);
DIRECT("pairwise-shift", shift);
DIRECT("pairwise-xor", exclusive_or);
#undef DIRECT

}  // namespace
}  // namespace trainyard
