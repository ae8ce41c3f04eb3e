#include "strategies/collectives/algorithms/recursive_place.hpp"

#include <fmt/format.h>

namespace trainyard {

std::vector<int> recursive_peers(GroupPlace place) {
  const RecursivePlace part(place.size);
  if (part.stands_back(place.index)) return {place.index - 1};
  std::vector<int> peers;
  if (part.is_paired(place.index)) peers.push_back(place.index + 1);
  for (int mask = 1; mask < part.taking_part; mask *= 2) peers.push_back(part.rank(part.number(place.index) ^ mask));
  return peers;
}

std::vector<int> recursive_role(GroupPlace place) {
  const RecursivePlace part(place.size);
  return {part.stands_back(place.index) ? 2 : part.is_paired(place.index) ? 1 : 0};
}

std::string recursive_refuses(GroupPlace place) {
  if (place.settings->fidelity != Fidelity::flows || RecursivePlace(place.size).standing_back == 0) return "";
  return fmt::format("{} ranks are no power of two, so that some wait for others; take fidelity messages", place.size);
}

}  // namespace trainyard
