// Collectives on a 2-D torus: along one dimension, then on a rank's share along the other (Mikami et al. 2018,
// "Massively distributed SGD: ImageNet/ResNet-50 training in a flash"). One such pass leaves one dimension idle at any
// time, and one direction of each link. So half of the data goes row-first and half column-first, in both directions,
// a quarter each (Sack & Gropp 2015, multiported tori; Ying et al. 2018 for TPU pods), and all links carry the same
// amount.
#include <fmt/format.h>

#include "strategies/collectives/algorithms/grid.hpp"

namespace trainyard {
namespace {

constexpr int kParts = 4;
int torus_channels(GroupPlace) { return kParts; }

/// Rank r is in row r / columns. Part k goes column-first if k is odd, and in the opposite direction from the third
/// part on.
Grid grid_of_part(const CollectiveSettings& settings, int ranks, int k) {
  const auto [rows, columns] = settings.torus_of(ranks);
  Grid grid = Grid::from_sizes(columns, rows);
  if (k % 2 == 1) grid = grid.transpose();
  grid.reversed = k >= 2;
  return grid;
}

std::string no_torus(GroupPlace place) {
  const auto [rows, columns] = place.settings->torus_of(place.size);
  return rows > 0 && columns > 0 && rows * columns == place.size
             ? ""
             : fmt::format("{} ranks are no {} x {} torus", place.size, rows, columns);
}

std::vector<int> torus_neighbours(GroupPlace place) {
  return grid_peers(place, grid_of_part(*place.settings, place.size, 0));
}

/// On a k × k torus each rank sends (n−1)/2n of the size over each of its four links, in 4(k−1) steps.
Ops torus_all_reduce(Local me, Bytes) {
  return side_by_side(me, kParts, [&](int k) {
    return grid_all_reduce(me.on_channel(k).restrict_to(me.part(k, kParts)),
                           grid_of_part(me.settings(), me.group_size(), k));
  });
}
template <Ops (*grid_operation)(Local, Grid)>
Ops torus_of_blocks(Local me, Bytes) {
  return side_by_side(me, kParts, [&](int k) {
    return grid_operation(me.on_channel(k).on_slice(k, kParts), grid_of_part(me.settings(), me.group_size(), k));
  });
}
constexpr auto torus_reduce_scatter = torus_of_blocks<grid_reduce_scatter>;
constexpr auto torus_all_gather = torus_of_blocks<grid_all_gather>;

#define TORUS(OPERATION, RUN)                                                                               \
  TRAINYARD_COLLECTIVE("torus-2d", Operation::OPERATION, torus_neighbours, RUN, .channels = torus_channels, \
                       .refuses = no_torus, .steady = true, .role = all_alike)
TORUS(all_reduce, torus_all_reduce);
TORUS(reduce_scatter, torus_reduce_scatter);
TORUS(all_gather, torus_all_gather);
#undef TORUS

}  // namespace
}  // namespace trainyard
