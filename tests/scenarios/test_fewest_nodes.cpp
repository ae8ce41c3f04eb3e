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
  int solved_cases = 0, dense_cases = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const int unit = draw(1, 5), most = draw(1, 300) * unit, percent = draw(1, 100);
    std::set<int> legal_counts;
    for (int nodes = unit; nodes <= most; nodes += unit)
      if (draw(1, 100) <= percent) legal_counts.insert(nodes);
    const double deadline = 1000.0 / draw(1, most);
    const auto time = [](int nodes) { return 1000.0 / nodes; };  // more nodes are faster
    std::map<int, NodesOutcome> results;
    NodeCounts counts{unit, most, [&legal_counts](int nodes) { return legal_counts.contains(nodes); }, {}};
    counts.look = [&](int nodes, bool) {
      CHECK_FALSE(results.contains(nodes));
      CHECK(nodes % unit == 0);
      return results[nodes] = {legal_counts.contains(nodes), legal_counts.contains(nodes) && time(nodes) <= deadline,
                               time(nodes)};
    };
    const int guess = draw(1, most);
    const FewestNodes fewest = find_fewest_nodes(guess, counts);
    int first = 0, late = 0;
    for (const int nodes : legal_counts) {
      if (time(nodes) <= deadline) {
        first = nodes;
        break;
      }
      late = nodes;
    }
    CAPTURE(trial, unit, most, guess, deadline, legal_counts.size());
    // The search gives up if more nodes help too little.
    if (fewest.in_time == 0) continue;
    ++solved_cases;
    CHECK(fewest.in_time == first);
    CHECK(fewest.late == late);
    CHECK((late == 0 || results.contains(late)));
    if (percent > 90) {
      dense_cases += first > unit ? 1 : 0;
      CHECK(results.size() <= 40);
    }
  }
  CHECK(solved_cases > 300);
  CHECK(dense_cases > 20);
}

TEST_CASE("if all numbers have plans, the fewest nodes in time are found from any guess", "[size]") {
  for (const int guess : {1, 7, 64, 300})
    for (int first = 1; first <= 256; ++first) {
      NodeCounts counts{1, 4096, [](int) { return true; }, {}};
      counts.look = [first](int nodes, bool) { return NodesOutcome{true, nodes >= first, 1000.0 / nodes}; };
      const FewestNodes fewest = find_fewest_nodes(guess, counts);
      CAPTURE(guess, first);
      CHECK(fewest.in_time == first);
      CHECK(fewest.late == first - 1);
    }
}

TEST_CASE("numbers of nodes with plans are found however far apart they are", "[size]") {
  // Beside 8 or 128 owned nodes, only powers of two have a plan: 8, 24, 56 ..., or 128, 384 ...
  for (const int owned : {8, 128})
    for (const int guess : {1, 3, 5, 40, 130})
      for (const int first : {owned, 3 * owned, 7 * owned}) {
        const auto is_power = [owned](int nodes) { return ((nodes + owned) & (nodes + owned - 1)) == 0; };
        NodeCounts counts{1, 4096, is_power, {}};
        counts.look = [first](int nodes, bool) { return NodesOutcome{true, nodes >= first, 1000.0 / nodes}; };
        const FewestNodes fewest = find_fewest_nodes(guess, counts);
        CAPTURE(owned, guess, first);
        CHECK(fewest.in_time == first);
        CHECK(next_with_plan(counts, first) == 2 * first + owned);
      }
}

TEST_CASE("if the most nodes are late, rounder numbers below them are tried", "[size]") {
  // 25 nodes of 8 GPUs have factors of five, and few splits divide a batch of 2,048 among them.
  const std::map<int, double> times{{25, 27}, {24, 14}, {16, 20}, {8, 39}};
  NodeCounts counts{1, 25, [&times](int nodes) { return times.contains(nodes); }, {}};
  counts.look = [&times](int nodes, bool) { return NodesOutcome{true, times.at(nodes) <= 20, times.at(nodes)}; };
  for (const int guess : {8, 16, 25}) {
    CAPTURE(guess);
    CHECK(find_fewest_nodes(guess, counts).in_time == 16);
    CHECK(find_fewest_nodes(guess, counts).late == 8);
  }
}

TEST_CASE("the search for the fewest nodes ends when more nodes do not help", "[size]") {
  int most_nodes = 0;
  NodeCounts counts{1, 4096, [](int) { return true; }, {}};
  counts.look = [&most_nodes](int nodes, bool) {
    most_nodes = std::max(most_nodes, nodes);
    return NodesOutcome{true, false, 100 + 10.0 / nodes};
  };
  const FewestNodes fewest = find_fewest_nodes(4, counts);
  CHECK(fewest.in_time == 0);
  CHECK(most_nodes == 8);
}

TEST_CASE("the first word of the names of chips is refused with the nodes that have such chips", "[size]") {
  std::vector<std::string> left_out;
  CHECK_THROWS_WITH(sized_nodes(Catalog(), {"h100"}, {}, false, left_out),
                    Catch::Matchers::Contains("--nodes-of: unknown node \"h100\"; nodes with such chips: ") &&
                        Catch::Matchers::Contains(", dgx-h100, "));
}

}  // namespace scenarios_test_fewest_nodes
