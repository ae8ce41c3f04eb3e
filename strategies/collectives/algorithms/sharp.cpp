// InfiniBand SHARP (Graham et al. 2016, "Scalable Hierarchical Aggregation and Reduction Protocol (SHARP): a hardware
// architecture for efficient data reduction"): hosts send their data to the switch that they are wired to, a tree of
// switches adds them up on the way to its root, and the sum comes back down to all.
#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

// A channel each, so that pieces on their way up do not wait for those that come down.
constexpr int kTreeUp = 0, kTreeDown = 1, kSharpChannels = 2;

int sharp_channels(GroupPlace) { return kSharpChannels; }

std::string no_switch_tree(GroupPlace place) {
  return place.size == 1 || !place.settings->switches.parent.empty() ? ""
                                                                     : "no switches that add up join all the ranks";
}

/// What sends to switch `k`: ranks, then switches.
std::vector<int> children_of(const SwitchTree& tree, int k, int ranks) {
  std::vector<int> children;
  for (int rank = 0; rank < ranks; ++rank)
    if (tree.of_member[rank] == k) children.push_back(rank);
  for (std::size_t other = 0; other < tree.parent.size(); ++other)
    if (tree.parent[other] == k) children.push_back(ranks + static_cast<int>(other));
  return children;
}

/// The switch above a member, as a member; −1: it is the root.
int above(const SwitchTree& tree, int member, int ranks) {
  const int up = member < ranks ? tree.of_member[member] : tree.parent[member - ranks];
  return up < 0 ? up : ranks + up;
}

std::vector<int> tree_neighbours(GroupPlace place) {
  const SwitchTree& tree = place.settings->switches;
  if (tree.parent.empty()) return {};
  std::vector<int> peers;
  if (const int up = above(tree, place.index, place.size); up >= 0) peers.push_back(up);
  if (place.index < place.size) return peers;
  for (const int child : children_of(tree, place.index - place.size, place.size)) peers.push_back(child);
  return peers;
}

Ops pieces_up(Local me, int to) {
  const int pieces = me.pieces();
  for (int piece = 0; piece < pieces; ++piece) co_yield me.send_piece(piece, to, me.part(piece, pieces));
}
Ops pieces_down(Local me, int from) {
  const int pieces = me.pieces();
  for (int piece = 0; piece < pieces; ++piece) co_yield me.recv_copy(from, me.part(piece, pieces));
}

/// Each rank sends and receives the size once, in pieces that follow each other: over h links up and h down, all of one
/// rate, size/rate + (2h−1) piece/rate and the latencies of the way there and back.
Ops sharp_all_reduce(Local me, Bytes) {
  const int up = above(me.settings().switches, me.index(), me.group_size());
  std::vector<Ops> parts;
  parts.push_back(pieces_up(me.on_channel(kTreeUp), up));
  parts.push_back(pieces_down(me.on_channel(kTreeDown), up));
  Ops all = side_by_side(me, std::move(parts));
  co_yield all;
}

/// Adds up a piece of all children; then passes it on up, or from the root down.
Ops sharp_add_up(Local me) {
  const SwitchTree& tree = me.settings().switches;
  Local up = me.on_channel(kTreeUp), down = me.on_channel(kTreeDown);
  const std::vector<int> children = children_of(tree, me.index() - me.group_size(), me.group_size());
  const int parent = above(tree, me.index(), me.group_size()), pieces = me.pieces();
  for (int piece = 0; piece < pieces; ++piece) {
    const Chunk part = me.part(piece, pieces);
    for (const int child : children)
      if (child == children.front())
        co_yield up.recv_copy(child, part);
      else
        co_yield up.recv_reduce(child, part);
    if (parent >= 0) co_yield up.pass_on(parent, part, up.received());
    for (const int child : children)
      if (parent < 0) co_yield down.pass_on(child, part, up.received());
  }
}
Ops sharp_hand_down(Local me) {
  const SwitchTree& tree = me.settings().switches;
  const std::vector<int> children = children_of(tree, me.index() - me.group_size(), me.group_size());
  const int parent = above(tree, me.index(), me.group_size()), pieces = me.pieces();
  for (int piece = 0; piece < pieces; ++piece) {
    const Chunk part = Local::scratch(me.part(piece, pieces));
    co_yield me.recv_copy(parent, part);
    for (const int child : children) co_yield me.pass_on(child, part, me.received());
  }
}

Ops sharp_on_switch(Local me, Bytes) {
  const bool root = above(me.settings().switches, me.index(), me.group_size()) < 0;
  std::vector<Ops> parts;
  parts.push_back(sharp_add_up(me));
  parts.push_back(root ? nothing() : sharp_hand_down(me.on_channel(kTreeDown)));
  Ops all = side_by_side(me, std::move(parts));
  co_yield all;
}

TRAINYARD_COLLECTIVE("sharp", Operation::all_reduce, tree_neighbours, sharp_all_reduce, .channels = sharp_channels,
                     .refuses = no_switch_tree, .switches = SwitchKind::network, .on_switch = sharp_on_switch);

}  // namespace
}  // namespace trainyard
