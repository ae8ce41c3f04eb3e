// The search for the fewest nodes that meet a deadline, compared with a look at every number of nodes.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "scenarios/src/sizing/size_nodes.hpp"

namespace scenarios_test_fewest_nodes {

using namespace trainyard;

TEST_CASE("the search finds the same fewest nodes as a look at every number that has a plan", "[size]") {
  std::mt19937 random(1);
  const auto draw = [&random](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  int found = 0, alone = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const int unit = draw(1, 5), most = draw(1, 300) * unit, in_100 = draw(1, 100);
    std::set<int> legal;
    for (int nodes = unit; nodes <= most; nodes += unit)
      if (draw(1, 100) <= in_100) legal.insert(nodes);
    const double deadline = 1000.0 / draw(1, most);
    const auto time = [](int nodes) { return 1000.0 / nodes; };  // more nodes are faster
    std::map<int, NodesTried> looked;
    NodeCounts counts{unit, most, [&legal](int nodes) { return legal.contains(nodes); }, {}};
    counts.look = [&](int nodes, bool) {
      CHECK_FALSE(looked.contains(nodes));
      CHECK(nodes % unit == 0);
      return looked[nodes] = {legal.contains(nodes), legal.contains(nodes) && time(nodes) <= deadline, time(nodes)};
    };
    const int guess = draw(1, most);
    const FewestNodes fewest = find_fewest_nodes(guess, counts);
    int first = 0, before = 0;
    for (const int nodes : legal) {
      if (time(nodes) <= deadline) {
        first = nodes;
        break;
      }
      before = nodes;
    }
    CAPTURE(trial, unit, most, guess, deadline, legal.size());
    // The search gives up if no halving of the guess, and no round number up to twice as many, has a plan.
    if (fewest.in_time == 0) continue;
    ++found;
    CHECK(fewest.in_time == first);
    CHECK(fewest.late == before);
    CHECK((before == 0 || looked.contains(before)));
    if (in_100 > 90) {
      alone += first > unit ? 1 : 0;
      CHECK(looked.size() <= 40);
    }
  }
  CHECK(found > 300);
  CHECK(alone > 20);
}

TEST_CASE("if all numbers have plans, the fewest nodes in time are found from any guess", "[size]") {
  for (const int guess : {1, 7, 64, 300})
    for (int first = 1; first <= 256; ++first) {
      NodeCounts counts{1, 4096, [](int) { return true; }, {}};
      counts.look = [first](int nodes, bool) { return NodesTried{true, nodes >= first, 1000.0 / nodes}; };
      const FewestNodes fewest = find_fewest_nodes(guess, counts);
      CAPTURE(guess, first);
      CHECK(fewest.in_time == first);
      CHECK(fewest.late == first - 1);
    }
}

TEST_CASE("the search for the fewest nodes ends when more nodes do not help", "[size]") {
  int most = 0;
  NodeCounts counts{1, 4096, [](int) { return true; }, {}};
  counts.look = [&most](int nodes, bool) {
    most = std::max(most, nodes);
    return NodesTried{true, false, 100 + 10.0 / nodes};
  };
  const FewestNodes fewest = find_fewest_nodes(4, counts);
  CHECK(fewest.in_time == 0);
  CHECK(most == 8);
}

}  // namespace scenarios_test_fewest_nodes
