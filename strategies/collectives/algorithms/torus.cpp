// Collectives on a torus: along one dimension, then on a rank's share along the next (Mikami et al. 2018, "Massively
// distributed SGD: ImageNet/ResNet-50 training in a flash"). One such pass leaves all dimensions but one idle at any
// time, and one direction of each link. So the data are divided into two equal parts for each dimension, which begin with
// it and go in opposite directions (Sack & Gropp 2015, multiported tori; Ying et al. 2018 for TPU pods). All links of a
// cube then carry the same amount.
#include <fmt/format.h>

#include "strategies/collectives/algorithms/grid.hpp"

namespace trainyard {
namespace {

/// The lengths of the dimensions of a group. Slices of chips count as a last dimension, which is never the first one: only
/// the network between their hosts joins them.
struct Box {
  std::vector<int> lengths;
  int slices = 1;
  int dimensions() const { return static_cast<int>(lengths.size()); }
  int parts() const { return 2 * dimensions(); }

  /// Part k begins with dimension k modulo the number of dimensions, and goes the other way round from the second
  /// half on.
  Grid grid_of_part(int k) const {
    std::vector<int> all = lengths;
    if (slices > 1) all.push_back(slices);
    Grid grid = Grid::from_sizes(all).rotate(k % dimensions(), dimensions());
    grid.reversed = k >= dimensions();
    return grid;
  }
};
using BoxOf = Box (*)(GroupPlace);

/// Rows and columns: the settings', or the most even split. Rank r is in row r / columns.
Box two_dimensions(GroupPlace place) {
  if (const std::vector<int>& stated = place.settings->torus; !stated.empty())
    return {{stated.rbegin(), stated.rend()}};
  int rows = 1;
  for (int r = 1; r * r <= place.size; ++r)
    if (place.size % r == 0) rows = r;
  return {{place.size / rows, rows}};
}

/// The settings' dimensions, or those of the chips on which the ranks are; a ring if they fill no box.
Box machine_dimensions(GroupPlace place) {
  const CollectiveSettings& settings = *place.settings;
  if (!settings.torus.empty()) return {{settings.torus.rbegin(), settings.torus.rend()}};
  if (settings.box.empty()) return {{place.size}};
  return {settings.box, settings.slices};
}

template <BoxOf box_of>
int torus_channels(GroupPlace place) {
  return box_of(place).parts();
}

template <BoxOf box_of>
std::string no_torus(GroupPlace place) {
  const Box box = box_of(place);
  int ranks = box.slices;
  for (const int length : box.lengths) ranks *= length;
  if (ranks == place.size) return "";
  return fmt::format("{} ranks are no {} torus", place.size,
                     fmt::join(box.lengths.rbegin(), box.lengths.rend(), " x "));
}
std::string no_two_dimensions(GroupPlace place) {
  const Box box = two_dimensions(place);
  return box.dimensions() == 2 ? no_torus<two_dimensions>(place)
                               : fmt::format("{} dimensions; rows and columns expected", box.dimensions());
}

template <BoxOf box_of>
std::vector<int> torus_neighbours(GroupPlace place) {
  return grid_peers(place, box_of(place).grid_of_part(0));
}

/// On a k × k torus each rank sends (n−1)/2n of the size over each of its four links, in 4(k−1) steps.
template <BoxOf box_of>
Ops torus_all_reduce(Local me, Bytes) {
  const Box box = box_of(me.place());
  return side_by_side(me, box.parts(), [&](int k) {
    return grid_all_reduce(me.on_channel(k).restrict_to(me.part(k, box.parts())), box.grid_of_part(k));
  });
}
template <BoxOf box_of, Ops (*grid_operation)(Local, Grid)>
Ops torus_of_blocks(Local me, Bytes) {
  const Box box = box_of(me.place());
  return side_by_side(me, box.parts(), [&](int k) {
    return grid_operation(me.on_channel(k).on_slice(k, box.parts()), box.grid_of_part(k));
  });
}

/// Registers the three operations on one kind of box.
template <BoxOf box_of>
struct RegisterTorus {
  RegisterTorus(const char* name, std::string (*refuses)(GroupPlace)) {
    const auto add = [&](Operation operation, Ops (*run)(Local, Bytes)) {
      RegisterCollective{operation,
                         {.name = name,
                          .peers = torus_neighbours<box_of>,
                          .run = run,
                          .channels = torus_channels<box_of>,
                          .refuses = refuses,
                          .steady = true,
                          .role = all_alike}};
    };
    add(Operation::all_reduce, torus_all_reduce<box_of>);
    add(Operation::reduce_scatter, torus_of_blocks<box_of, grid_reduce_scatter>);
    add(Operation::all_gather, torus_of_blocks<box_of, grid_all_gather>);
  }
};
const RegisterTorus<two_dimensions> register_torus_2d("torus-2d", no_two_dimensions);
const RegisterTorus<machine_dimensions> register_torus("torus", no_torus<machine_dimensions>);

}  // namespace
}  // namespace trainyard
