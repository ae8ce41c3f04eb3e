#pragma once
#include <array>

#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// Ranks in a grid: all that an algorithm in two levels needs to know, be its levels the ranks of a node and the nodes,
/// or the rows and columns of a torus. Rank r is at r / stride[d] % size[d] of dimension d.
struct Grid {
  std::array<int, 2> size, stride;
  bool reversed = false;  ///< rings go the other way round

  /// `inner` neighbouring ranks each, first among them, then between them.
  static Grid of(int inner, int outer) { return {{inner, outer}, {1, inner}, false}; }
  /// The other dimension first.
  Grid transposed() const { return {{size[1], size[0]}, {stride[1], stride[0]}, reversed}; }

  int place(int rank, int d) const { return rank / stride[d] % size[d]; }
  /// The ranks that differ from this one in that dimension only.
  Numbering line(int rank, int d) const {
    const auto at = static_cast<std::size_t>(d);
    const Numbering ranks = Numbering::every(stride[at], rank - place(rank, d) * stride[at], size[at]);
    return reversed ? ranks.reversed() : ranks;
  }
};

/// Both neighbours in both lines.
std::vector<int> grid_peers(GroupPlace, const Grid&);

// On a view that numbers all ranks as the group does; a phase each.

/// Ring reduce-scatter along the first dimension, ring all-reduce of the rank's share along the second, ring all-gather
/// along the first: 2(a−1) + 2(b−1) steps on a × b ranks, 2(a−1)/a of the data and 2(b−1)/b of the a-th part.
Ops grid_all_reduce(Local, Grid);
/// The blocks of all ranks behind one place of the first dimension go there, then along the second dimension to their
/// ranks. (a−1)·b + (b−1) messages of one block.
Ops grid_reduce_scatter(Local, Grid);
/// The other way round: along the second dimension, then sets of blocks along the first. (b−1) + (a−1)·b messages.
Ops grid_all_gather(Local, Grid);

}  // namespace trainyard
