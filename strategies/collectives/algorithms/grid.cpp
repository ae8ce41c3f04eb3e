#include "strategies/collectives/algorithms/grid.hpp"

#include <algorithm>

#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

/// n−1 steps: rank i ends up with the sum of chunk i.
Ops chunks_to_owners(Local me) {
  return ring_steps(me, me.group_size() - 1, [](const Local& rank, int step) {
    return RingStep{
        .send = rank.chunk(rank.index() - step - 1), .receive = rank.chunk(rank.index() - step - 2), .adds = true};
  });
}
Ops chunks_to_all(Local me) {
  return ring_steps(me, me.group_size() - 1, [](const Local& rank, int step) {
    return RingStep{.send = rank.chunk(rank.index() - step), .receive = rank.chunk(rank.index() - step - 1)};
  });
}

/// The blocks of the ranks that share a place in the first dimension. They are not contiguous, so each is a message.
class BlockSets {
 public:
  BlockSets(const Local& me, const Grid& grid)
      : me_(&me), line_(grid.line(me.index(), 0)), across_(grid.stride[1]), size_(grid.size[1]) {
    behind_ = grid.place(me.index(), 1) * across_;
  }
  int size() const { return size_; }
  /// Returns block `q` of the set with number `i` (modulo the length of the line).
  Chunk block(int i, int q) const {
    const int n = line_.size();
    return me_->block(line_.member(((i % n) + n) % n) - behind_ + q * across_);
  }

 private:
  const Local* me_;
  Numbering line_;
  int across_, size_, behind_ = 0;
};

Ops sets_to_owners(Local me, Grid grid) {
  const BlockSets sets(me, grid);
  Local line = me.renumber(grid.line(me.index(), 0));
  for (int step = 0; step < line.group_size() - 1; ++step)
    for (int q = 0; q < sets.size(); ++q) {
      co_yield line.send(line.next(), sets.block(line.index() - step - 1, q));
      co_yield line.recv_reduce(line.previous(), sets.block(line.index() - step - 2, q));
    }
}
Ops sets_to_all(Local me, Grid grid) {
  const BlockSets sets(me, grid);
  Local line = me.renumber(grid.line(me.index(), 0));
  for (int step = 0; step < line.group_size() - 1; ++step)
    for (int q = 0; q < sets.size(); ++q) {
      co_yield line.send(line.next(), sets.block(line.index() - step, q));
      co_yield line.recv_copy(line.previous(), sets.block(line.index() - step - 1, q));
    }
}

}  // namespace

std::vector<int> grid_peers(GroupPlace place, const Grid& grid) {
  std::vector<int> peers;
  for (const int d : {0, 1}) {
    const Numbering line = grid.line(place.index, d);
    const int n = line.size(), position = line.number(place.index);
    for (const int peer : {line.member((position + 1) % n), line.member((position + n - 1) % n)})
      if (peer != place.index && std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
  }
  return peers;
}

Ops grid_all_reduce(Local me, Grid grid) {
  Local first = me.renumber(grid.line(me.index(), 0));
  Local second = me.renumber(grid.line(me.index(), 1)).restrict_to(first.chunk(first.index()));
  co_yield chunks_to_owners(first);
  co_yield me.phase();
  co_yield one_ring_all_reduce(second);
  co_yield me.phase();
  co_yield chunks_to_all(first);
}

Ops grid_reduce_scatter(Local me, Grid grid) {
  co_yield sets_to_owners(me, grid);
  co_yield me.phase();
  co_yield one_ring_reduce_scatter(me.renumber(grid.line(me.index(), 1)));
}

Ops grid_all_gather(Local me, Grid grid) {
  co_yield one_ring_all_gather(me.renumber(grid.line(me.index(), 1)));
  co_yield me.phase();
  co_yield sets_to_all(me, grid);
}

}  // namespace trainyard
