#include "strategies/collectives/algorithms/grid.hpp"

#include <algorithm>

#include "strategies/collectives/algorithms/ring_steps.hpp"

namespace trainyard {
namespace {

/// The blocks that travel along dimension `d`: those of the ranks that share this rank's places in the dimensions before
/// it. The blocks of one place along `d` form a set. They are not contiguous, so each is a piece of a message.
class BlockSets {
 public:
  BlockSets(const Local& me, const Grid& grid, int d) : me_(&me), line_(grid.line(me.index(), d)) {
    for (int later = d + 1; later < grid.dimensions(); ++later) {
      const std::vector<int> before = offsets_;
      offsets_.clear();
      const int mine = grid.place(me.index(), later);
      for (int q = 0; q < grid.size[later]; ++q)
        for (const int offset : before) offsets_.push_back(offset + (q - mine) * grid.stride[later]);
    }
  }
  int size() const { return static_cast<int>(offsets_.size()); }
  /// Returns block `q` of the set with number `i` (modulo the length of the line).
  Chunk block(int i, int q) const {
    const int n = line_.size();
    return me_->block(line_.member(((i % n) + n) % n) + offsets_[q]);
  }

 private:
  const Local* me_;
  Numbering line_;
  std::vector<int> offsets_{0};  // distances of the ranks of a set from the line of this rank
};

/// A ring along dimension `d` for each set. `adds`: sums go to the owners of the sets; else sets go to all.
Ops pass_sets_round(Local me, Grid grid, int d, bool adds) {
  const BlockSets sets(me, grid, d);
  Local line = me.renumber(grid.line(me.index(), d));
  for (int step = 0; step < line.group_size() - 1; ++step)
    for (int q = 0; q < sets.size(); ++q) {
      const int sent = line.index() - step - (adds ? 1 : 0);
      co_yield line.send_piece(q, line.next(), sets.block(sent, q));
      if (adds)
        co_yield line.recv_reduce(line.previous(), sets.block(sent - 1, q));
      else
        co_yield line.recv_copy(line.previous(), sets.block(sent - 1, q));
    }
}

}  // namespace

Grid Grid::from_sizes(std::vector<int> lengths) {
  Grid grid;
  int stride = 1;
  for (const int length : lengths) {
    grid.stride.push_back(stride);
    stride *= length;
  }
  grid.size = std::move(lengths);
  return grid;
}

Grid Grid::rotate(int by, int count) const {
  Grid grid = *this;
  std::rotate(grid.size.begin(), grid.size.begin() + by, grid.size.begin() + count);
  std::rotate(grid.stride.begin(), grid.stride.begin() + by, grid.stride.begin() + count);
  return grid;
}

std::vector<int> grid_peers(GroupPlace place, const Grid& grid) {
  std::vector<int> peers;
  for (int d = 0; d < grid.dimensions(); ++d) {
    const Numbering line = grid.line(place.index, d);
    if (line.size() > 1) add_peers(peers, line.neighbours(place.index));
  }
  return peers;
}

Ops grid_all_reduce(Local me, Grid grid) {
  std::vector<Local> lines;
  for (int d = 0; d < grid.dimensions(); ++d) {
    lines.push_back(me.renumber(grid.line(me.index(), d)));
    if (d > 0) lines[d] = lines[d].restrict_to(lines[d - 1].chunk(lines[d - 1].index()));
  }
  const int last = grid.dimensions() - 1;
  for (int d = 0; d < last; ++d) {
    co_yield one_ring_reduce_scatter<&Local::chunk>(lines[d]);
    co_yield me.phase();
  }
  co_yield one_ring_all_reduce(lines[last]);
  for (int d = last - 1; d >= 0; --d) {
    co_yield me.phase();
    co_yield one_ring_all_gather<&Local::chunk>(lines[d]);
  }
}

Ops grid_reduce_scatter(Local me, Grid grid) {
  const int last = grid.dimensions() - 1;
  for (int d = 0; d < last; ++d) {
    co_yield pass_sets_round(me, grid, d, true);
    co_yield me.phase();
  }
  co_yield one_ring_reduce_scatter(me.renumber(grid.line(me.index(), last)));
}

Ops grid_all_gather(Local me, Grid grid) {
  const int last = grid.dimensions() - 1;
  co_yield one_ring_all_gather(me.renumber(grid.line(me.index(), last)));
  for (int d = last - 1; d >= 0; --d) {
    co_yield me.phase();
    co_yield pass_sets_round(me, grid, d, false);
  }
}

}  // namespace trainyard
