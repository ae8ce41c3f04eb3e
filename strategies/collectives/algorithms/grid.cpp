#include "strategies/collectives/algorithms/grid.hpp"

#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

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

/// A ring step along the first dimension for each set. `adds`: sums go to the owners of the sets; else sets go to all.
Ops pass_sets_round(Local me, Grid grid, bool adds) {
  const BlockSets sets(me, grid);
  Local line = me.renumber(grid.line(me.index(), 0));
  for (int step = 0; step < line.group_size() - 1; ++step)
    for (int q = 0; q < sets.size(); ++q) {
      const int sent = line.index() - step - (adds ? 1 : 0);
      co_yield line.send(line.next(), sets.block(sent, q));
      if (adds)
        co_yield line.recv_reduce(line.previous(), sets.block(sent - 1, q));
      else
        co_yield line.recv_copy(line.previous(), sets.block(sent - 1, q));
    }
}

}  // namespace

std::vector<int> grid_peers(GroupPlace place, const Grid& grid) {
  std::vector<int> peers;
  for (const int d : {0, 1}) {
    const Numbering line = grid.line(place.index, d);
    if (line.size() > 1) add_peers(peers, line.neighbours(place.index));
  }
  return peers;
}

Ops grid_all_reduce(Local me, Grid grid) {
  Local first = me.renumber(grid.line(me.index(), 0));
  Local second = me.renumber(grid.line(me.index(), 1)).restrict_to(first.chunk(first.index()));
  co_yield one_ring_reduce_scatter<&Local::chunk>(first);
  co_yield me.phase();
  co_yield one_ring_all_reduce(second);
  co_yield me.phase();
  co_yield one_ring_all_gather<&Local::chunk>(first);
}

Ops grid_reduce_scatter(Local me, Grid grid) {
  co_yield pass_sets_round(me, grid, true);
  co_yield me.phase();
  co_yield one_ring_reduce_scatter(me.renumber(grid.line(me.index(), 1)));
}

Ops grid_all_gather(Local me, Grid grid) {
  co_yield one_ring_all_gather(me.renumber(grid.line(me.index(), 1)));
  co_yield me.phase();
  co_yield pass_sets_round(me, grid, false);
}

}  // namespace trainyard
