#include "strategies/collectives/collective.hpp"

#include <fmt/format.h>

#include <array>

namespace trainyard {

std::vector<int> ring_peers(GroupPlace place) {
  std::vector<int> peers;
  add_peers(peers, Numbering(place.size).neighbours(place.index));
  return peers;
}

Numbering channel_ring(int ranks, const CollectiveSettings& settings, int channel) {
  const int per_node = settings.ranks_per_node(ranks);
  if (ranks % per_node != 0) return Numbering(ranks);
  return settings.meshed && per_node < ranks ? Numbering(ranks).zigzag_in_blocks(per_node, channel)
                                             : Numbering(ranks).rotate_in_blocks(per_node, channel);
}

std::vector<int> all_others(GroupPlace place) {
  std::vector<int> peers;
  for (int step = 1; step < place.size; ++step) peers.push_back((place.index + step) % place.size);
  return peers;
}

std::vector<int> star_peers(GroupPlace place) { return place.index > 0 ? std::vector<int>{0} : all_others(place); }

std::vector<int> power_of_two_peers(GroupPlace place) {
  std::vector<int> peers;
  for (int distance = 1; distance < place.size; distance *= 2)
    add_peers(peers, {(place.index + distance) % place.size, (place.index + place.size - distance) % place.size});
  return peers;
}

int settings_channels(GroupPlace place) { return place.settings->channels; }

const Collective& find_collective(Operation operation, const std::string& name, GroupPlace place, const Place& where) {
  const Collective& found = collectives(operation).find(name, where);
  require_fits(found, place, where);
  return found;
}

void require_fits(const Collective& collective, GroupPlace place, const Place& where) {
  const Operation operation = collective.operation;
  if (place.size < 1) fail(where, fmt::format("{} of {} ranks; expected 1 or more", name_of(operation), place.size));
  if (has_root(operation) && (place.settings->root < 0 || place.settings->root >= place.size))
    fail(where, fmt::format("root {} of a {} of {}; expected 0 to {}", place.settings->root, name_of(operation),
                            counted_noun(place.size, "rank"), place.size - 1));
  if (place.settings->fidelity == Fidelity::flows && !collective.steady)
    fail(where,
         fmt::format("{} by {} cannot be simulated as flows: its ranks wait for each other; take fidelity messages",
                     name_of(operation), collective.name));
  if (const std::string why = collective.refuses ? collective.refuses(place) : ""; !why.empty())
    fail(where, fmt::format("{} by {}: {}", name_of(operation), collective.name, why));
}

const Collective& default_collective(Operation operation) {
  static constexpr std::array<const char*, kOperations> names{"ring",   "ring",          "ring",          "direct",
                                                              "direct", "binomial-tree", "binomial-tree", "direct",
                                                              "direct", "ring-shift",    "dissemination"};
  return collectives(operation).find(names.at(static_cast<std::size_t>(operation)), {});
}

int Collective::channels_of(GroupPlace place) const {
  if (place.settings->fidelity == Fidelity::modelled) return 1;
  return channels ? channels(place) : 1;
}

std::vector<int> peers_of(const Collective& collective, GroupPlace place) {
  if (place.settings->fidelity == Fidelity::modelled) return {};  // members meet, and send no messages
  if (!has_root(collective.operation)) return collective.peers(place);
  const Numbering from_root = Numbering(place.size).rotate(place.settings->root);
  place.index = from_root.number(place.index);
  std::vector<int> peers = collective.peers(place);
  for (int& peer : peers) peer = from_root.member(peer);
  return peers;
}

}  // namespace trainyard
