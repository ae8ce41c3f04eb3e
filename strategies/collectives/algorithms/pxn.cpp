// PXN, "PCIe x NVLink" (NVIDIA, "Doubling all2all Performance with NVIDIA Collective Communication Library 2.12",
// 2022): data for another node first go to the rank of the sender's node that has the receiver's place, and so is on
// its rail. That rank sends all of them as one message.
#include <fmt/format.h>

#include "strategies/collectives/collective.hpp"

namespace trainyard {
namespace {

/// A rank's place, if ranks lie on nodes of `local` ranks each.
struct Rails {
  int local, nodes;
  explicit Rails(GroupPlace place) : local(place.settings->ranks_per_node(place.size)), nodes(place.size / local) {}
  int node(int rank) const { return rank / local; }
  int place(int rank) const { return rank % local; }
  int rank(int node, int place) const { return node * local + place; }
};

std::string no_whole_nodes(GroupPlace place) {
  const int local = place.settings->ranks_per_node(place.size);
  if (!place.settings->node_sizes.empty()) return "its nodes have different numbers of ranks";
  return place.size % local == 0 ? "" : fmt::format("{} ranks are no whole number of nodes of {}", place.size, local);
}

/// Peers, beginning with the next rank, so that all members use the same slots in the same way.
std::vector<int> own_node_and_rail(GroupPlace place) {
  const Rails rails(place);
  const int node = rails.node(place.index), own_place = rails.place(place.index);
  std::vector<int> peers;
  for (int step = 1; step < rails.local; ++step) peers.push_back(rails.rank(node, (own_place + step) % rails.local));
  for (int step = 1; step < rails.nodes; ++step) peers.push_back(rails.rank((node + step) % rails.nodes, own_place));
  return peers;
}

/// With m nodes of g ranks, a rank sends g−1 messages of m blocks inside its node, then m−1 messages of g blocks on
/// its rail: (g−1)/g of the size by NVLink and (m−1)/m by the adapter, as without PXN.
Ops pxn_all_to_all(Local me, Bytes) {
  const Rails rails(me.place());
  const int n = me.group_size(), node = rails.node(me.index()), own_place = rails.place(me.index());
  const Chunk all = me.whole_chunk();
  const auto packed = [&](int first, int count, int copy) { return Local::scratch(all.parts(first, count, n), copy); };
  for (int to = 0; to < n; ++to)  // ordered by place, then by node
    co_yield me.copy(me.outgoing(to), packed(rails.place(to) * rails.nodes + rails.node(to), 1, 3));
  for (int step = 1; step < rails.local; ++step) {
    const int to = (own_place + step) % rails.local;
    co_yield me.send_at_once(rails.rank(node, to), packed(to * rails.nodes, rails.nodes, 3));
  }
  co_yield me.copy(packed(own_place * rails.nodes, rails.nodes, 3), packed(own_place * rails.nodes, rails.nodes, 2));
  for (int step = 1; step < rails.local; ++step) {
    const int from = (own_place + rails.local - step) % rails.local;
    co_yield me.recv_copy(rails.rank(node, from), packed(from * rails.nodes, rails.nodes, 2));
  }
  co_yield me.phase();
  for (int from = 0; from < rails.local; ++from)  // ordered by node, then by the rank that gave it
    for (int to = 0; to < rails.nodes; ++to)
      co_yield me.copy(packed(from * rails.nodes + to, 1, 2), packed(to * rails.local + from, 1, 3));
  for (int step = 1; step < rails.nodes; ++step) {
    const int to = (node + step) % rails.nodes;
    co_yield me.send_at_once(rails.rank(to, own_place), packed(to * rails.local, rails.local, 3));
  }
  co_yield me.copy(packed(node * rails.local, rails.local, 3), all.parts(node * rails.local, rails.local, n));
  for (int step = 1; step < rails.nodes; ++step) {
    const int from = (node + rails.nodes - step) % rails.nodes;
    co_yield me.recv_copy(rails.rank(from, own_place), all.parts(from * rails.local, rails.local, n));
  }
}

TRAINYARD_COLLECTIVE("pxn", Operation::all_to_all, own_node_and_rail, pxn_all_to_all, .refuses = no_whole_nodes,
                     .steady = true, .role = all_alike);

}  // namespace
}  // namespace trainyard
