// The choice of a job's nodes among the free nodes of a cluster.
#include <catch2/catch.hpp>
#include <set>

#include "topologies/placement.hpp"

namespace topologies_test_placement {

using namespace trainyard;

TEST_CASE("packed nodes lie on the fewest leaves, spread nodes on the most", "[placement]") {
  const std::vector<DeviceId> leaves{7, 7, 7, 8, 8, 8, 8, 9, 9};
  std::vector<bool> taken(leaves.size(), false);
  CHECK(choose_nodes(2, Placement::packed, leaves, taken, 1) == std::vector<int>{7, 8});  // the fullest leaf with room
  CHECK(choose_nodes(4, Placement::packed, leaves, taken, 1) == std::vector<int>{3, 4, 5, 6});
  CHECK(choose_nodes(1, Placement::packed, leaves, taken, 1) == std::vector<int>{0});
  CHECK(taken == std::vector<bool>{true, false, false, true, true, true, true, true, true});
  taken.assign(leaves.size(), false);
  CHECK(choose_nodes(6, Placement::packed, leaves, taken, 1) == std::vector<int>{3, 4, 5, 6, 7, 8});
  taken.assign(leaves.size(), false);
  CHECK(choose_nodes(3, Placement::spread, leaves, taken, 1) == std::vector<int>{0, 3, 4});
  taken.assign(leaves.size(), false);
  CHECK(choose_nodes(9, Placement::spread, leaves, taken, 1).size() == 9);
}

TEST_CASE("fragmented nodes are free, differ from each other, and depend only on the seed", "[placement]") {
  const std::vector<DeviceId> leaves{7, 7, 7, 7, 8, 8, 8, 8};
  std::set<std::vector<int>> choices;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<bool> taken(leaves.size(), false), again = taken;
    const std::vector<int> first = choose_nodes(3, Placement::fragmented, leaves, taken, seed);
    CHECK(first == choose_nodes(3, Placement::fragmented, leaves, again, seed));
    const std::vector<int> second = choose_nodes(5, Placement::fragmented, leaves, taken, seed);
    std::set<int> nodes(first.begin(), first.end());
    nodes.insert(second.begin(), second.end());
    CHECK(nodes.size() == 8);
    choices.insert(first);
  }
  CHECK(choices.size() > 5);
}

}  // namespace topologies_test_placement
