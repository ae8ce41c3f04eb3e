// InfiniBand SHARP (Graham et al. 2016, "Scalable Hierarchical Aggregation and Reduction Protocol (SHARP): a hardware
// architecture for efficient data reduction"): hosts send their data to the switch that they are wired to, a tree of
// switches adds them up on the way to its root, and the sum comes back down to all. If a node has several GPUs, each
// of them first adds up one part of the node's data and sends it by its own adapter (NVIDIA/nccl, CollnetDirect).
#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

// One channel for each direction, so that pieces on their way up do not wait for those that come down.
constexpr int kTreeUp = 0, kTreeDown = 1, kSharpChannels = 2;

int sharp_channels(GroupPlace) { return kSharpChannels; }

std::string no_switch_tree(GroupPlace place) {
  return place.size == 1 || !place.settings->switches.parent.empty()
             ? ""
             : "no switches that add up join all the ranks (those of a fabric with sharp: true, InfiniBand, do); "
               "expected another algorithm, such as ring";
}

/// Number of ranks on a node. Each of them has one part of the data.
int collnet_parts(GroupPlace place) { return place.settings->ranks_per_node(place.size); }

std::string no_collnet(GroupPlace place) {
  if (!place.settings->node_sizes.empty() || place.size % collnet_parts(place) != 0)
    return "its nodes have different numbers of ranks";
  return place.size > 1 && collnet_parts(place) == 1 ? "for one rank on each node, take sharp" : no_switch_tree(place);
}

/// True if a rank with this part lies below switch `k`. Rank r has part r modulo the number of parts.
bool carries(const SwitchTree& tree, int k, int part, int parts, int ranks) {
  for (int rank = part; rank < ranks; rank += parts)
    for (int up = tree.of_member[rank]; up >= 0; up = tree.parent[up])
      if (up == k) return true;
  return false;
}

/// Returns the members that send the part to switch `k`: ranks first, then switches.
std::vector<int> children_of(const SwitchTree& tree, int k, int ranks, int part = 0, int parts = 1) {
  std::vector<int> children;
  for (int rank = part; rank < ranks; rank += parts)
    if (tree.of_member[rank] == k) children.push_back(rank);
  for (int other = 0; other < static_cast<int>(tree.parent.size()); ++other)
    if (tree.parent[other] == k && carries(tree, other, part, parts, ranks)) children.push_back(ranks + other);
  return children;
}

/// Returns the switch above a member, as a member of the group; −1 if the member is the root.
int parent_member(const SwitchTree& tree, int member, int ranks) {
  const int up = member < ranks ? tree.of_member[member] : tree.parent[member - ranks];
  return up < 0 ? up : ranks + up;
}

std::vector<int> tree_neighbours(GroupPlace place) {
  const SwitchTree& tree = place.settings->switches;
  if (tree.parent.empty()) return {};
  std::vector<int> peers;
  if (const int up = parent_member(tree, place.index, place.size); up >= 0) peers.push_back(up);
  if (place.index < place.size) return peers;
  for (const int child : children_of(tree, place.index - place.size, place.size)) peers.push_back(child);
  return peers;
}

Ops send_pieces(Local me, int to) {
  const int pieces = me.pieces();
  for (int piece = 0; piece < pieces; ++piece) co_yield me.send_piece(piece, to, me.part(piece, pieces));
}
Ops receive_pieces(Local me, int from) {
  const int pieces = me.pieces();
  for (int piece = 0; piece < pieces; ++piece) co_yield me.recv_copy(from, me.part(piece, pieces));
}

/// Each rank sends and receives the size once, in pieces that follow each other. Over h links up and h down, all of
/// one rate, it takes size/rate + (2h−1) piece/rate plus the latencies of both directions.
Ops sharp_all_reduce(Local me, Bytes) {
  const int up = parent_member(me.settings().switches, me.index(), me.group_size());
  return side_by_side(me, send_pieces(me.on_channel(kTreeUp), up), receive_pieces(me.on_channel(kTreeDown), up));
}

std::vector<int> tree_and_node(GroupPlace place) {
  std::vector<int> peers = tree_neighbours(place);
  if (peers.empty() || place.index >= place.size) return peers;
  const int parts = collnet_parts(place), first = place.index / parts * parts;
  for (int rank = first; rank < first + parts; ++rank)
    if (rank != place.index) peers.push_back(rank);
  return peers;
}

/// With g ranks on each node: (g−1)/g of the size goes to the other ranks of the node, 1/g of it into the network and
/// back, and (g−1)/g to the others again. NCCL runs these three steps piece by piece at the same time; here they run
/// one after the other.
Ops collnet_all_reduce(Local me, Bytes size) {
  const int parts = collnet_parts(me.place()), own_part = me.index() % parts, first = me.index() - own_part;
  for (int step = 1; step < parts; ++step) {
    const int to = (own_part + step) % parts;
    co_yield me.send_at_once(first + to, me.part(to, parts));
  }
  for (int step = 1; step < parts; ++step)
    co_yield me.recv_reduce(first + (own_part + parts - step) % parts, me.part(own_part, parts));
  co_yield me.phase();
  co_yield sharp_all_reduce(me.restrict_to(me.part(own_part, parts)), size);
  co_yield me.phase();
  for (int step = 1; step < parts; ++step)
    co_yield me.send_at_once(first + (own_part + step) % parts, me.part(own_part, parts));
  for (int step = 1; step < parts; ++step) {
    const int from = (own_part + parts - step) % parts;
    co_yield me.recv_copy(first + from, me.part(from, parts));
  }
}

/// Returns the children that send each part.
std::vector<std::vector<int>> children_by_part(const Local& me, int parts) {
  const int k = me.index() - me.group_size();
  std::vector<std::vector<int>> all;
  for (int part = 0; part < parts; ++part)
    all.push_back(children_of(me.settings().switches, k, me.group_size(), part, parts));
  return all;
}

/// Adds up a piece of each part from all children, then passes it on: upwards, or down again at the root.
Ops sharp_add_up(Local me, int parts) {
  Local up = me.on_channel(kTreeUp), down = me.on_channel(kTreeDown);
  const std::vector<std::vector<int>> by_part = children_by_part(me, parts);
  const int parent = parent_member(me.settings().switches, me.index(), me.group_size());
  const int pieces = me.pieces(me.part(0, parts));
  for (int i = 0; i < pieces * parts; ++i) {
    const std::vector<int>& children = by_part[static_cast<std::size_t>(i % parts)];
    const Chunk part = me.part(i % parts, parts).part(i / parts, pieces);
    for (const int child : children)
      if (child == children.front())
        co_yield up.recv_copy(child, part);
      else
        co_yield up.recv_reduce(child, part);
    if (parent >= 0 && !children.empty()) co_yield up.pass_on(parent, part, up.last_receive());
    for (const int child : children)
      if (parent < 0) co_yield down.pass_on(child, part, up.last_receive());
  }
}
Ops sharp_hand_down(Local me, int parts) {
  const std::vector<std::vector<int>> by_part = children_by_part(me, parts);
  const int parent = parent_member(me.settings().switches, me.index(), me.group_size());
  const int pieces = me.pieces(me.part(0, parts));
  for (int i = 0; i < pieces * parts; ++i) {
    const std::vector<int>& children = by_part[static_cast<std::size_t>(i % parts)];
    const Chunk part = Local::scratch(me.part(i % parts, parts).part(i / parts, pieces));
    if (!children.empty()) co_yield me.recv_copy(parent, part);
    for (const int child : children) co_yield me.pass_on(child, part, me.last_receive());
  }
}

Ops run_on_switch(Local me, int data_parts) {
  const bool root = parent_member(me.settings().switches, me.index(), me.group_size()) < 0;
  return side_by_side(me, sharp_add_up(me, data_parts),
                      root ? nothing() : sharp_hand_down(me.on_channel(kTreeDown), data_parts));
}
Ops sharp_on_switch(Local me, Bytes) { co_yield run_on_switch(me, 1); }
Ops collnet_on_switch(Local me, Bytes) { co_yield run_on_switch(me, collnet_parts(me.place())); }

TRAINYARD_COLLECTIVE("sharp", Operation::all_reduce, tree_neighbours, sharp_all_reduce, .channels = sharp_channels,
                     .refuses = no_switch_tree, .switches = SwitchKind::network, .on_switch = sharp_on_switch);
TRAINYARD_COLLECTIVE("collnet-direct", Operation::all_reduce, tree_and_node, collnet_all_reduce,
                     .channels = sharp_channels, .refuses = no_collnet, .switches = SwitchKind::network,
                     .on_switch = collnet_on_switch);

}  // namespace
}  // namespace trainyard
