#include "strategies/collectives/recursive_place.hpp"

namespace trainyard {

std::vector<int> recursive_peers(GroupPlace place) {
  const RecursivePlace part(place.size);
  if (part.stands_back(place.index)) return {place.index - 1};
  std::vector<int> peers;
  if (part.paired(place.index)) peers.push_back(place.index + 1);
  for (int mask = 1; mask < part.taking_part; mask *= 2) peers.push_back(part.rank(part.number(place.index) ^ mask));
  return peers;
}

}  // namespace trainyard
