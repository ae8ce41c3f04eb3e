#include "strategies/collectives/algorithms/recursive_place.hpp"

#include <fmt/format.h>

namespace trainyard {

Ops run_with_partners(Local me, Ops steps, ResultPart result) {
  const RecursivePlace part(me.group_size());
  const int rank = me.index();
  const bool paired = part.is_paired(rank), waits = part.is_bystander(rank);
  const Chunk returned = result == ResultPart::whole ? me.whole_chunk() : me.block(waits ? rank : rank + 1);
  if (waits) {
    co_yield me.send(rank - 1, me.whole_chunk());
    co_yield me.recv_copy(rank - 1, returned);
    co_return;
  }
  if (paired) co_yield me.recv_reduce(rank + 1, me.whole_chunk());
  co_yield me.phase();
  co_yield steps;
  if (paired) co_yield me.send(rank + 1, returned);
}

std::vector<int> recursive_peers(GroupPlace place) {
  const RecursivePlace part(place.size);
  if (part.is_bystander(place.index)) return {place.index - 1};
  std::vector<int> peers;
  if (part.is_paired(place.index)) peers.push_back(place.index + 1);
  for (int mask = 1; mask < part.participants; mask *= 2) peers.push_back(part.rank(part.number(place.index) ^ mask));
  return peers;
}

std::vector<int> recursive_role(GroupPlace place) {
  const RecursivePlace part(place.size);
  return {part.is_bystander(place.index) ? 2 : part.is_paired(place.index) ? 1 : 0};
}

std::string recursive_refuses(GroupPlace place) {
  if (place.settings->fidelity != Fidelity::flows || RecursivePlace(place.size).bystanders == 0) return "";
  return fmt::format("{} ranks are no power of two, so that some wait for others; take fidelity messages", place.size);
}

}  // namespace trainyard
