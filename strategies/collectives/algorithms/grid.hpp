#pragma once
#include <vector>

#include "strategies/collectives/collective.hpp"

namespace trainyard {

/// A grid of ranks for algorithms in levels: the ranks of a node and the nodes, or the dimensions of a torus. Along
/// dimension d, rank r is at place r / stride[d] % size[d]. Algorithms take the dimensions in the order of the vectors.
struct Grid {
  std::vector<int> size, stride;
  bool reversed = false;  ///< rings run in the opposite direction

  /// Makes a grid of consecutive ranks with these lengths. The first dimension is the one of neighbouring ranks.
  static Grid from_sizes(std::vector<int> lengths);
  int dimensions() const { return static_cast<int>(size.size()); }
  /// Returns the grid with its first `count` dimensions shifted: dimension `by` comes first.
  Grid rotate(int by, int count) const;

  int place(int rank, int d) const { return rank / stride[d] % size[d]; }
  /// Returns the ranks that differ from this one in dimension `d` only.
  Numbering line(int rank, int d) const {
    const Numbering ranks = Numbering::from_stride(stride[d], rank - place(rank, d) * stride[d], size[d]);
    return reversed ? ranks.reverse() : ranks;
  }
};

/// Returns both neighbours of a rank in each dimension.
std::vector<int> grid_peers(GroupPlace, const Grid&);

// The operations below run on a view that numbers all ranks as the group does. Each takes one phase for each dimension
// that it passes.

/// Ring reduce-scatters along one dimension after the other, each on the share that is left, a ring all-reduce along the
/// last, and ring all-gathers in the opposite order: 2(a−1) + 2(b−1) steps on a × b ranks. Each rank sends 2(a−1)/a of
/// the data along the first dimension, 2(b−1)/b of an a-th of the data along the second, and so on.
Ops grid_all_reduce(Local, Grid);
/// Along the first dimension, each rank gets the blocks of all ranks that share its place there; along the second, those
/// that share both places, until each has its own. The blocks of a step follow each other as pieces of one message, so a
/// step takes one latency.
Ops grid_reduce_scatter(Local, Grid);
/// Does the reverse, along the last dimension first.
Ops grid_all_gather(Local, Grid);

}  // namespace trainyard
