#pragma once
#include <deque>
#include <vector>

#include "sim/machine.hpp"
#include "sim/program.hpp"

namespace trainyard {

/// Loads of links by groups whose paths the network chooses. Groups without a common actor can move bytes at the same
/// time, as the groups of one dimension of a mesh do: they are of one wave, and the network balances their paths
/// together. A group takes the first wave that has none of its actors.
class GroupBalance {
 public:
  struct Wave {
    LinkLoads loads;
    std::vector<bool> has_actor = {};  // indexed by actor
  };
  /// Returns the wave of a further group, and counts the group's actors in it.
  Wave& wave_of(const GroupFlow&);
  LinkLoads total;  ///< loads by all waves, which choose between paths that are equal for their own wave

 private:
  std::deque<Wave> waves_;
};

/// Finds the route of a group. If the network chooses paths, they balance the loads of this group and of those before.
GroupRoute route_of_group(const Machine&, const GroupFlow&, GroupBalance&);

}  // namespace trainyard
