#include "strategies/collective.hpp"

namespace trainyard {
namespace {

std::vector<int> all_others(GroupPlace place) {
  std::vector<int> peers;
  for (int step = 1; step < place.size; ++step) peers.push_back((place.index + step) % place.size);
  return peers;
}

/// Direct all-reduce: every rank adds up one chunk of all, which the others send it straight away, then gives the sum to
/// each: a parameter server that is split over the ranks. In step k ranks send k places further, so that nobody is sent
/// to by two (Thakur, Rabenseifner & Gropp 2005, pairwise exchange). 2(n−1) steps of `size`/n.
Ops direct_all_reduce(Local me, Bytes) {
  const int n = me.group_size();
  const auto ahead = [&me, n](int step) { return (me.index() + step) % n; };
  const auto behind = [&me, n](int step) { return (me.index() + n - step) % n; };
  for (int step = 1; step < n; ++step) {
    co_yield me.send(ahead(step), me.chunk(ahead(step)));
    co_yield me.recv_reduce(behind(step), me.chunk(me.index()));
  }
  for (int step = 1; step < n; ++step) {
    co_yield me.send(ahead(step), me.chunk(me.index()));
    co_yield me.recv_copy(behind(step), me.chunk(behind(step)));
  }
}

TRAINYARD_COLLECTIVE("direct", Operation::all_reduce, all_others, direct_all_reduce);

}  // namespace
}  // namespace trainyard
