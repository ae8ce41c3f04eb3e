// Trainings that write a checkpoint before they give their nodes to others.
#include <catch2/catch.hpp>

#include "tests/scenarios/queues.hpp"

namespace scenarios_test_fleet_preemption {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("a training saves its steps within the grace time before preemption", "[fleet]") {
  QueueSize low = size_of(2, 1);
  low.checkpoint = {10, Seconds{1}, Seconds{2}, Seconds{2}};
  low.recovery.restart.value = 3;
  const std::vector<QueueArrival> arrivals{{0, Seconds{0}, 100, 0}, {1, Seconds{25.5}, 20, 1}};
  const auto outcomes = [&](double grace, QueueSize first) {
    const QueueRules rules{.nodes = 2, .policy = QueuePolicy::preemptive, .grace = Seconds{grace}};
    return run(rules, {{first}, {size_of(2, 1)}}, arrivals).outcomes;
  };
  // 23 steps and two checkpoints are done at 25.5 s, and a half of step 24. The checkpoint takes 2 s.
  const std::vector<QueueOutcome> saved = outcomes(2, low);
  CHECK(saved[1].start.value == 27.5);
  CHECK(saved[0].preemptions == 1);
  CHECK(saved[0].time.lost_to_preemption == 0.5);
  CHECK(saved[0].time.steps == 100);
  CHECK(saved[0].time.waiting == 20);
  CHECK(saved[0].time.restarts == 5);
  CHECK(saved[0].time.checkpoints == 2 + 2 + 7);  // 77 steps follow, with 7 checkpoints
  CHECK(saved[0].end.value == 47.5 + 5 + 84);
  CHECK(saved[0].time.sum() == saved[0].end.value);
  // Without enough time, the work since the last checkpoint is lost.
  const std::vector<QueueOutcome> stopped = outcomes(1.9, low), at_once = outcomes(0, low);
  CHECK(stopped[1].start.value == 25.5);
  CHECK(stopped[0].time.lost_to_preemption == 3.5);
  CHECK(stopped[0].end.value == at_once[0].end.value);
  CHECK(saved[0].end < stopped[0].end);
  // A training without checkpoints has none before preemption either.
  QueueSize without = size_of(2, 1);
  CHECK(outcomes(100, without)[0].time.lost_to_preemption == 25.5);
}

TEST_CASE("a failure while a training saves its steps loses them", "[fleet]") {
  QueueSize low = failing(size_of(2, 1), 300, 50);
  low.parts[0].takes_node = false;
  low.checkpoint = {100, Seconds{1}, Seconds{400}, Seconds{2}};  // none is due within the 60 steps
  int interrupted = 0;
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    CAPTURE(seed);
    const QueueRules rules{
        .nodes = 2, .policy = QueuePolicy::preemptive, .horizon = Seconds{5000}, .seed = seed, .grace = Seconds{1000}};
    const QueueResult result =
        run(rules, {{low}, {size_of(2, 1)}}, {{0, Seconds{0}, 60, 0}, {1, Seconds{25.5}, 20, 1}});
    const QueueOutcome& outcome = result.outcomes[0];
    CHECK(outcome.time.sum() == Approx(outcome.end.value));
    CHECK(outcome.time.steps == Approx(60));
    CHECK(outcome.preemptions == 1);
    const double start = result.outcomes[1].start.value;
    CHECK(start <= 25.5 + 400);
    if (start == 25.5 || start == 25.5 + 400) continue;
    // The failure ended the checkpoint, and with it the steps of the first 25.5 s.
    ++interrupted;
    CHECK(outcome.time.lost_to_failures >= 10);
    CHECK(outcome.time.checkpoints >= start - 25.5);
  }
  CHECK(interrupted > 0);
}

}  // namespace scenarios_test_fleet_preemption
