#include <cmath>

#include "scenarios/src/collectives/collective_run.hpp"
#include "sim/error.hpp"
#include "tests/collective_options.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tests/support.hpp"

namespace strategies_test_collectives {

using namespace trainyard;
using namespace trainyard::test;

namespace {

CollectiveRun all_reduce(const std::string& algorithm, int n, double bytes, Picoseconds latency = {}) {
  return run_collective(star_cluster(n, kRate, latency),
                        collective_options(Operation::all_reduce, algorithm, n, Bytes{bytes}));
}

/// True if the all-reduce refuses n ranks with default settings.
bool refuses(const std::string& algorithm, int n) {
  const Collective& found = collectives(Operation::all_reduce).find(algorithm, {});
  return found.refuses && !found.refuses({0, n}).empty();
}

}  // namespace

TEST_CASE("ring all-reduce takes 2(n-1) (latency + S/(n B))", "[collectives]") {
  for (const int n : {2, 3, 4, 7, 16}) {
    const CollectiveRun run = all_reduce("ring", n, 8e6, {2000000});
    CHECK(run.time == near(2 * (n - 1) * (2e-6 + 8e6 / n / 1e9)));
    CHECK(run.messages == static_cast<std::uint64_t>(2 * n * (n - 1)));
    for (const double sent : run.sent) CHECK(sent == near(2.0 * (n - 1) / n * 8e6));
  }
}

TEST_CASE("gather + broadcast serialises on the master's link", "[collectives]") {
  for (const int n : {2, 3, 8}) {
    // The master's messages follow each other, and each takes its latency.
    const CollectiveRun run = all_reduce("gather-broadcast", n, 1e6, {2000000});
    CHECK(run.time == near(2 * (n - 1) * (2e-6 + 1e-3)));
  }
}

TEST_CASE("binary tree all-reduce goes up and down its levels", "[collectives]") {
  // Seven ranks are a tree with two levels below the root. An inner rank receives from its two children one after the
  // other, so that each direction takes 2 x 2 messages.
  CollectiveRunOptions o = collective_options(Operation::all_reduce, "binary-tree", 7, Bytes{1e6});
  o.options.settings.chunk = Bytes{1e6};  // whole messages
  const CollectiveRun run = run_collective(star_cluster(7, kRate, {1000000}), o);
  CHECK(run.time == near(2 * 2 * 2 * (1e-6 + 1e-3)));
  CHECK(run.total == near(2 * 6 * 1e6));
}

TEST_CASE("in a direct all-reduce every rank sends and receives one message in each step", "[collectives]") {
  for (const int n : {2, 3, 4, 7}) {
    const CollectiveRun run = all_reduce("pairwise-shift", n, 8e6, {2000000});
    CHECK(run.time == near(2 * (n - 1) * (2e-6 + 8e6 / n / 1e9)));
    CHECK(all_reduce("direct", n, 8e6, {2000000}).time == near(2 * 2e-6 + 2.0 * (n - 1) / n * 8e6 / 1e9));
    for (const double sent : run.sent) CHECK(sent == near(2.0 * (n - 1) / n * 8e6));
  }
}

TEST_CASE("halving-doubling takes 2 log2 n steps, and two more if n is no power of two", "[collectives]") {
  for (const int n : {2, 4, 8, 16}) {
    const CollectiveRun run = all_reduce("halving-doubling", n, 8e6, {2000000});
    CHECK(run.time == near(2 * std::log2(n) * 2e-6 + 2.0 * (n - 1) / n * 8e6 / 1e9));
    for (const double sent : run.sent) CHECK(sent == near(2.0 * (n - 1) / n * 8e6));
  }
  const CollectiveRun six = all_reduce("halving-doubling", 6, 8e6, {2000000});
  CHECK(six.time == near((4 + 2) * 2e-6 + (2.0 * 3 / 4 + 2) * 8e6 / 1e9));
}

TEST_CASE("a chain passes the whole buffer along, and back", "[collectives]") {
  for (const int n : {2, 3, 5}) CHECK(all_reduce("chain", n, 1e6, {2000000}).time == near(2 * (n - 1) * (2e-6 + 1e-3)));
}

TEST_CASE("every all-reduce leaves the sum on every rank, without races", "[collectives]") {
  for (const std::string& algorithm : collectives(Operation::all_reduce).names())
    for (int n = 1; n <= 9; ++n) {
      if (algorithm == "ring-literal" || refuses(algorithm, n)) continue;  // its published listing has a race
      CAPTURE(algorithm, n);
      CollectiveRunOptions o = collective_options(Operation::all_reduce, algorithm, n, Bytes{8.0 * 23});
      std::vector<double> sum(23, 0.0);
      for (int rank = 0; rank < n; ++rank) {
        std::vector<double>& values = o.values.emplace_back();
        for (std::size_t i = 0; i < sum.size(); ++i) {
          values.push_back(static_cast<double>((rank + 1) * static_cast<int>(i + 3)));  // whole numbers: sums are exact
          sum[i] += values.back();
        }
      }
      const CollectiveRun run = run_collective(star_cluster(n, kRate), o);
      for (const std::vector<double>& values : run.values) CHECK(values == sum);
      CHECK(run.hazards.empty());
    }
}

TEST_CASE("one rank has nothing to exchange", "[collectives]") {
  for (const std::string& algorithm : collectives(Operation::all_reduce).names()) {
    if (refuses(algorithm, 1)) continue;
    const CollectiveRun run = all_reduce(algorithm, 1, 1e6);
    CHECK(run.time == 0);
    CHECK(run.messages == 0);
  }
}

TEST_CASE("the ring has no hazard, but the ring of its published listing has one", "[collectives]") {
  CollectiveRunOptions o;
  o.ranks = 4;
  o.options.size = Bytes{4e6};
  o.values = contributor_values(4);
  CHECK(run_collective(star_cluster(4, kRate), o).hazards.empty());
  o.algorithm = "ring-literal";
  const CollectiveRun literal = run_collective(star_cluster(4, kRate), o);
  CHECK_THAT(literal.hazards, Catch::VectorContains(std::string(
                                  "actor 0: a receive overwrites chunk 0 of buffer 0 while a send still reads it")));
  // If data are captured when the send is posted (a buffered send), there is no hazard: the receive is posted later.
  o.options.mode = Mode::eager;
  CHECK(run_collective(star_cluster(4, kRate), o).hazards.empty());
}

TEST_CASE("an unknown algorithm lists the known ones", "[collectives]") {
  Place place;
  place.file = std::make_shared<const std::string>("x.yaml");
  place.line = 3;
  place.column = 7;
  CHECK_THROWS_WITH(collectives(Operation::all_reduce).find("rong", place),
                    "x.yaml:3:7: unknown all-reduce algorithm \"rong\"; did you mean \"ring\"?");
  CHECK(collectives(Operation::all_reduce).find("binary_tree", place).name == "binary-tree");
  CHECK_THROWS_AS(collectives(Operation::all_reduce).add("ring", Collective{}), InternalError);
}

}  // namespace strategies_test_collectives
