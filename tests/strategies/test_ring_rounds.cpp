// The program of a ring repeats its steps in rounds (Repeat). The steps are those of the algorithm, and many rounds are
// simulated at once, on several channels, too.
#include "scenarios/src/collectives/collective_run.hpp"
#include "strategies/collectives/collective_program.hpp"
#include "tests/seeds/seed_case.hpp"
#include "tests/support.hpp"

namespace strategies_test_ring_rounds {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Counts the rounds that were simulated at once. If `allows` is false, rounds must be simulated one by one.
struct PassedRounds : Observer, RoundSums {
  explicit PassedRounds(bool allows) : allows_(allows) {}
  Interest interest() const override { return {.rounds = allows_}; }
  RoundSums* round_sums() override { return this; }
  bool end_round(std::span<const OpId>) override { return true; }
  void repeat_round(double times) override { count += times; }
  double count = 0;

 private:
  bool allows_;
};

/// Runs an operation by rings of `n` ranks on nodes of eight. Returns the number of rounds that were simulated at once,
/// the time, the number of messages, and the bytes that each rank sent.
json ring_run(Operation operation, int n, int channels, bool at_once) {
  PassedRounds passed(at_once);
  CollectiveRunOptions o;
  o.ranks = n;
  o.operation = operation;
  o.options.size = Bytes{8e6};
  o.options.settings.channels = channels;
  o.options.settings.per_node = 8;
  o.folding = Folding::off;
  o.watch = [&passed](std::vector<Observer*>& observers, Values&, const ClusterMachine&) {
    observers.push_back(&passed);
  };
  const CollectiveRun run = run_collective_here(star_cluster(n, kRate, {2000000}), o);
  json result{passed.count, run.time, run.messages};
  for (const double bytes : run.sent) result.push_back(bytes);
  return result;
}

}  // namespace

TEST_CASE("rounds of rings are simulated at once on several channels, with the same result", "[collectives][rounds]") {
  for (const Operation operation : {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather})
    for (const int channels : {1, 2, 4}) {
      CAPTURE(name_of(operation), channels);
      const json result = ring_run(operation, 128, channels, true),
                 expected = ring_run(operation, 128, channels, false);
      CHECK(expected[0] == 0);
      if (operation == Operation::all_reduce) CHECK(result[0].get<double>() > 50);
      REQUIRE(result.size() == expected.size());
      for (std::size_t i = 1; i < expected.size(); ++i)
        CHECK(result[i].get<double>() == near(expected[i].get<double>()));
    }
}

TEST_CASE("the chunk numbers of a ring's steps count down and wrap around", "[collectives][rounds]") {
  CollectiveOptions options;
  options.size = Bytes{8e6};
  const Collective& ring = collectives(Operation::all_reduce).find("ring", {});
  for (const int n : {3, 10, 11, 12, 13, 40}) {
    std::vector<Actor> members;
    for (Actor a = 0; a < n; ++a) members.push_back(a);
    for (int rank = 0; rank < n; ++rank) {
      CAPTURE(n, rank);
      Names names;
      const auto program = collective_program(ring, {rank, n, &options.settings}, options, names, members);
      std::vector<int> sent, received, expected_sent, expected_received;
      OpReader reader(*program);
      for (Op op; reader.next(op) == Pull::op;) {
        if (op.kind == Kind::send) sent.push_back(op.effect.read.chunk);
        if (op.kind == Kind::recv) received.push_back(op.effect.write.chunk);
      }
      for (int step = 0; step < 2 * (n - 1); ++step) {
        const int first = step < n - 1 ? rank : rank + 1, round = step < n - 1 ? step : step - (n - 1);
        expected_sent.push_back((first - round + 2 * n) % n);
        expected_received.push_back((first - round - 1 + 2 * n) % n);
      }
      CHECK(sent == expected_sent);
      CHECK(received == expected_received);
    }
  }
}

}  // namespace strategies_test_ring_rounds
