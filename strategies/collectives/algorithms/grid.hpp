#pragma once
#include <array>

#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// A grid of ranks for algorithms in two levels. The levels are the ranks of a node and the nodes, or the rows and
/// columns of a torus. In dimension d, rank r is at r / stride[d] % size[d].
struct Grid {
  std::array<int, 2> size, stride;
  bool reversed = false;  ///< rings run in the opposite direction

  /// Makes a grid whose first level is groups of `inner` consecutive ranks, and whose second level is the `outer`
  /// groups.
  static Grid from_sizes(int inner, int outer) { return {{inner, outer}, {1, inner}, false}; }
  /// Returns the grid with its dimensions exchanged.
  Grid transpose() const { return {{size[1], size[0]}, {stride[1], stride[0]}, reversed}; }

  int place(int rank, int d) const { return rank / stride[d] % size[d]; }
  /// Returns the ranks that differ from this one in dimension `d` only.
  Numbering line(int rank, int d) const {
    const auto dimension = static_cast<std::size_t>(d);
    const Numbering ranks =
        Numbering::from_stride(stride[dimension], rank - place(rank, d) * stride[dimension], size[dimension]);
    return reversed ? ranks.reverse() : ranks;
  }
};

/// Returns both neighbours of a rank in both lines.
std::vector<int> grid_peers(GroupPlace, const Grid&);

// The operations below run on a view that numbers all ranks as the group does. Each takes one phase.

/// Ring reduce-scatter along the first dimension, ring all-reduce of the rank's share along the second, ring all-gather
/// along the first: 2(a−1) + 2(b−1) steps on a × b ranks. Each rank sends 2(a−1)/a of the data along the first
/// dimension, and 2(b−1)/b of an a-th of the data along the second.
Ops grid_all_reduce(Local, Grid);
/// Along the first dimension, each rank gets the blocks of all ranks that share its place there; along the second, the
/// blocks go to their ranks. (a−1)·b + (b−1) messages of one block.
Ops grid_reduce_scatter(Local, Grid);
/// The reverse: along the second dimension, then sets of blocks along the first. (b−1) + (a−1)·b messages.
Ops grid_all_gather(Local, Grid);

}  // namespace trainyard
