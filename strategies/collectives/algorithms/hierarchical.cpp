// Hierarchical collectives: links within a node relieve the network. Between nodes every rank takes part, on the
// "rail" of its number in its node, so that all network adapters of a node are used (Horovod's hierarchical
// all-reduce: Sergeev & Del Balso 2018; Cho, Finkler & Kung 2019, BlueConnect).
#include <fmt/format.h>

#include "strategies/collectives/algorithms/grid.hpp"
#include "strategies/collectives/algorithms/ring_steps.hpp"
#include "strategies/collectives/algorithms/trees.hpp"

namespace trainyard {
namespace {

Grid nodes_of(GroupPlace place) {
  const int per_node = place.settings->ranks_per_node(place.size);
  return Grid::from_sizes({per_node, place.size / per_node});
}

std::string partial_node(GroupPlace place) {
  const int per_node = place.settings->ranks_per_node(place.size);
  return place.size % per_node == 0
             ? ""
             : fmt::format("{} ranks are no whole number of nodes of {} ranks", place.size, per_node);
}

std::vector<int> node_and_rail(GroupPlace place) { return grid_peers(place, nodes_of(place)); }

/// With m nodes of g ranks, each rank sends 2(g−1)/g of the size within the node and 2(m−1)/m of a g-th of it on the
/// rail, in 2(g−1) + 2(m−1) steps.
Ops hierarchical_all_reduce(Local me, Bytes) { co_yield grid_all_reduce(me, nodes_of(me.place())); }
/// Half of that. Data that are contiguous for a rail are not contiguous for the node, where m pieces make a step.
Ops hierarchical_reduce_scatter(Local me, Bytes) { co_yield grid_reduce_scatter(me, nodes_of(me.place())); }
Ops hierarchical_all_gather(Local me, Bytes) { co_yield grid_all_gather(me, nodes_of(me.place())); }

#define HIERARCHICAL(OPERATION, RUN)                                                                      \
  TRAINYARD_COLLECTIVE("hierarchical", Operation::OPERATION, node_and_rail, RUN, .refuses = partial_node, \
                       .steady = true, .role = all_alike)
HIERARCHICAL(all_reduce, hierarchical_all_reduce);
HIERARCHICAL(reduce_scatter, hierarchical_reduce_scatter);
HIERARCHICAL(all_gather, hierarchical_all_gather);
#undef HIERARCHICAL

std::vector<int> node_and_leaders(GroupPlace place) {
  const Grid grid = nodes_of(place);
  const Numbering node = grid.line(place.index, 0), leaders = grid.line(place.index, 1);
  std::vector<int> peers = peers_in(chain_place(node.number(place.index), node.size()));
  for (int& peer : peers) peer = node.member(peer);
  if (node.number(place.index) == 0 && leaders.size() > 1) add_peers(peers, leaders.neighbours(place.index));
  return peers;
}

/// The first rank of each node does all the work between nodes (Jia et al. 2018 call it the master of its group).
/// Chains of P pieces run within the node, there and back, g−2+P steps each; a ring of all the data runs between the m
/// leaders, 2(m−1) steps of 1/m. One adapter of each node carries all the traffic.
Ops leader_all_reduce(Local me, Bytes) {
  const Grid grid = nodes_of(me.place());
  Local node = me.renumber(grid.line(me.index(), 0));
  Local leaders = me.renumber(grid.line(me.index(), 1));
  const TreePlace chain = chain_place(node.index(), node.group_size());
  co_yield tree_reduce(node, chain);
  if (node.index() == 0) co_yield one_ring_all_reduce(leaders);
  co_yield tree_broadcast(node, chain);
}

TRAINYARD_COLLECTIVE("hierarchical-leader", Operation::all_reduce, node_and_leaders, leader_all_reduce,
                     .refuses = partial_node);

}  // namespace
}  // namespace trainyard
