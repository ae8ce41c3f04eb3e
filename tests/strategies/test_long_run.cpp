// The long run: a training from its step times, with failures and checkpoints.
#include <catch2/catch.hpp>
#include <cmath>

#include "sim/error.hpp"
#include "strategies/failures/checkpoint_interval.hpp"
#include "tests/cases.hpp"

namespace strategies_test_long_run {

using namespace trainyard;

namespace {

constexpr double kMinute = 60, kHour = 3600, kDay = 24 * kHour;

LongRunPlan plan_of(double steps, double step = 1) {
  LongRunPlan plan;
  plan.steps = steps;
  plan.step = Seconds{step};
  return plan;
}

/// Returns the t at which t / (e^((t+C)/M) − 1) is largest. It is the root of (1 − t/M)·e^((t+C)/M) = 1, by bisection.
double exact_interval(double mtbf, double cost) {
  double low = 0, high = mtbf;
  for (int i = 0; i < 200; ++i) {
    const double t = (low + high) / 2;
    (std::log1p(-t / mtbf) + (t + cost) / mtbf > 0 ? low : high) = t;
  }
  return low;
}

double sum(const LongRunResult& r) {
  return (r.useful + r.slower + r.lost_work + r.stalled + r.down + r.without_node).value;
}

}  // namespace

TEST_CASE("a run without failures takes the time of its steps and of the stalls of its checkpoints", "[long-run]") {
  LongRunPlan plan = plan_of(1000, 0.1);
  CHECK(run_long(plan).end.value == Approx(100).epsilon(1e-14));
  plan.checkpoint = {100, Seconds{2}, Seconds{2}, Seconds{5}};
  const LongRunResult run = run_long(plan);
  CHECK(run.end.value == Approx(120).epsilon(1e-14));
  CHECK(run.checkpoints == 10);
  CHECK(run.goodput() == Approx(100 / 120.0).epsilon(1e-14));
}

TEST_CASE("a failure costs its detection, the restart, reading back and the work since the last checkpoint",
          "[long-run]") {
  LongRunPlan plan = plan_of(1000);
  plan.checkpoint = {100, Seconds{2}, Seconds{2}, Seconds{7}};
  plan.recovery.detect = Seconds{30};
  plan.recovery.restart = Seconds{60};
  plan.failures = {{Seconds{560.25}, std::nullopt, "gpu", true}};  // after 550 steps and a quarter of one
  const LongRunResult run = run_long(plan);
  CHECK(run.lost_steps == 50);
  CHECK(run.lost_work.value == Approx(50.25).epsilon(1e-12));
  CHECK(run.down.value == 97);
  CHECK(run.end.value == Approx(1000 + 20 + 50.25 + 97).epsilon(1e-12));
  CHECK(run.failures_of.at("gpu") == 1);
  SECTION("a failure during a checkpoint: it is incomplete, and the one before is read") {
    plan.failures[0].time = Seconds{509};  // after 500 steps, 4 checkpoints and half of the fifth
    const LongRunResult during = run_long(plan);
    CHECK(during.lost_steps == 100);
    CHECK(during.end.value == Approx(1000 + 21 + 100 + 97).epsilon(1e-12));
  }
  SECTION("a failure during the restart: the restart begins again") {
    plan.failures.push_back({Seconds{600.25}, std::nullopt, "gpu", true});
    const LongRunResult twice = run_long(plan);
    CHECK(twice.lost_steps == 50);
    CHECK(twice.down.value == Approx(40 + 97).epsilon(1e-12));
  }
  SECTION("two failures at once are one restart") {
    plan.failures.push_back(plan.failures[0]);
    CHECK(run_long(plan).end.value == Approx(run.end.value).epsilon(1e-14));
  }
}

TEST_CASE("a checkpoint that is written in the background stops training for its copy alone", "[long-run]") {
  LongRunPlan plan = plan_of(105);
  plan.checkpoint = {10, Seconds{0.5}, Seconds{4}, Seconds{3}};
  CHECK(run_long(plan).end.value == Approx(110).epsilon(1e-14));
  SECTION("until it is written, a failure falls back to the one before") {
    plan.failures = {{Seconds{23.5}, std::nullopt, "node", true}};  // the second checkpoint began at 20.5
    const LongRunResult early = run_long(plan);
    CHECK(early.lost_steps == 12);
    plan.failures = {{Seconds{24.5}, std::nullopt, "node", true}};  // the second checkpoint has just been written
    CHECK(run_long(plan).lost_steps == 3);
  }
  SECTION("the next checkpoint waits for it, and the end of the training for the last one") {
    plan.steps = 100;
    plan.checkpoint.write = Seconds{15};
    CHECK(run_long(plan).end.value == Approx(160).epsilon(1e-14));
  }
}

TEST_CASE("without a spare the training waits, or goes on with the replicas left", "[long-run]") {
  LongRunPlan plan = plan_of(1000);
  plan.replicas = 4;
  plan.recovery = {Seconds{5}, Seconds{10}, Seconds{100}, 0, false, true};
  plan.failures = {{Seconds{100.5}, std::nullopt, "node", true}};
  const LongRunResult waits = run_long(plan);
  CHECK(waits.without_node.value == 85);  // detection and restart take 15 of the 100 s of repair
  CHECK(waits.end.value == Approx(1000 + 100.5 + 15 + 85).epsilon(1e-12));
  SECTION("elastic: the others still have the state; a batch takes 4/3 of the time until the node is back") {
    plan.recovery.elastic = true;
    const LongRunResult goes_on = run_long(plan);
    CHECK(goes_on.lost_work.value == Approx(0.5).epsilon(1e-12));
    CHECK(goes_on.lost_steps == 0);
    CHECK(goes_on.lost_minibatches == 4);                            // the present one of each replica
    CHECK(goes_on.slower.value == Approx(64 / 3.0).epsilon(1e-12));  // 85 s are 63.75 steps: the node joins after 64
    CHECK(goes_on.down.value == 25);
    CHECK(goes_on.end.value == Approx(1000 + 0.5 + 64 / 3.0 + 25).epsilon(1e-12));
  }
  SECTION("with a spare node it does neither") {
    plan.recovery.spares = 1;
    CHECK(run_long(plan).end.value == Approx(1000 + 100.5 + 15).epsilon(1e-12));
  }
  SECTION("without a spare and without repair it would stop forever") {
    plan.recovery.repair = std::nullopt;
    CHECK_THROWS_WITH(run_long(plan), Catch::Contains("no spare node is left, and none is repaired"));
  }
}

TEST_CASE("prescribed failures have their consequences in the result", "[long-run]") {
  LongRunPlan plan = plan_of(1000);
  plan.replicas = 2;
  plan.nodes = 4;
  plan.checkpoint = {100, Seconds{2}, Seconds{2}, Seconds{7}};
  plan.recovery = {Seconds{5}, Seconds{10}, std::nullopt, 0, true, false};
  plan.failures = {{Seconds{0}, 950, "switch", false},
                   {Seconds{255.5}, std::nullopt, "gpu", true, 1},
                   {Seconds{300}, std::nullopt, "nic", true, 1},
                   {Seconds{1e9}, std::nullopt, "link", false}};
  const LongRunResult run = run_long(plan);
  REQUIRE(run.prescribed.size() == 4);
  CHECK(run.prescribed[1].time == Seconds{255.5});
  CHECK(run.prescribed[1].steps == 251);  // 100 steps and 2 s, twice, then 51 steps and a half
  CHECK(run.prescribed[1].lost_steps == 51);
  CHECK(run.prescribed[1].lost_work.value == Approx(51.5).epsilon(1e-12));
  CHECK(run.prescribed[2].steps == 211);  // 22.5 s after the restart from step 200, at half of the pace
  CHECK(run.prescribed[2].idle);          // the GPU's failure has removed its node already
  CHECK(run.prescribed[0].steps == 950);
  CHECK(run.prescribed[0].lost_steps == 50);
  CHECK(run.prescribed[0].lost_work.value == Approx(100).epsilon(1e-12));  // with half of the replicas
  CHECK(!run.prescribed[3].happened);
  CHECK(run.failures == 2);
  CHECK(run.lost_work == run.prescribed[0].lost_work + run.prescribed[1].lost_work);
}

TEST_CASE("nodes of a broken replica replace failed nodes of others", "[long-run]") {
  LongRunPlan plan = plan_of(1000);
  plan.replicas = 4;
  plan.recovery = {Seconds{5}, Seconds{10}, std::nullopt, 0, true, true};
  plan.failures = {{Seconds{100}, std::nullopt, "node", true}, {Seconds{300}, std::nullopt, "node", true}};
  const auto pace_at_end = [&plan](int nodes) {
    plan.nodes = nodes;
    const LongRunResult run = run_long(plan);
    return (run.end.value - 300 - 15) / (1000 - run.prescribed[1].steps);
  };
  CHECK(pace_at_end(8) == Approx(4 / 3.0).epsilon(0.01));   // two nodes per replica: one replica is lost
  CHECK(pace_at_end(16) == Approx(4 / 3.0).epsilon(0.01));  // four nodes per replica: one replica is lost
  CHECK(pace_at_end(4) == Approx(2).epsilon(0.01));         // one node per replica: two replicas are lost
  plan.failures.pop_back();
  plan.nodes = 2;  // two replicas per node
  CHECK(run_long(plan).slower.value == Approx(900).epsilon(0.01));
}

TEST_CASE("random failures: number and kinds follow the rates, and only the seed decides", "[long-run]") {
  LongRunPlan plan = plan_of(0, 10);
  plan.end_limit = Seconds{365 * kDay};
  plan.parts = {{"gpu", 16384, Seconds{80000 * kHour}, true}, {"switch", 100, Seconds{20000 * kHour}, false}};
  plan.checkpoint = {60, Seconds{5}, Seconds{5}, Seconds{10}};
  plan.recovery.restart = Seconds{300};
  const LongRunResult run = run_long(plan);
  const double gpus = 16384 * 365 * 24 / 80000.0, switches = 100 * 365 * 24 / 20000.0;
  CHECK(std::abs(run.failures_of.at("gpu") - gpus) < 4 * std::sqrt(gpus));
  CHECK(std::abs(run.failures_of.at("switch") - switches) < 4 * std::sqrt(switches));
  CHECK(run.end == plan.end_limit);
  CHECK(sum(run) == Approx(run.end.value).epsilon(1e-9));
  CHECK(run_long(plan).lost_work == run.lost_work);
  plan.draws = seeded_draws(2);
  CHECK(run_long(plan).lost_work != run.lost_work);
}

TEST_CASE("the expected time of a run is Daly's exact model", "[long-run]") {
  // An interval of length t that must pass without a failure takes M·e^(R/M)·(e^(t/M) − 1) on average.
  const double mtbf = 10000, interval = 1500, cost = 100, restart = 200;
  LongRunPlan plan = plan_of(interval * 20000);
  plan.parts = {{"node", 1, Seconds{mtbf}, false}};
  plan.checkpoint = {interval, Seconds{cost}, Seconds{cost}, Seconds{50}};
  plan.recovery.restart = Seconds{restart - 50};
  const double expected = 20000 * mtbf * std::exp(restart / mtbf) * std::expm1((interval + cost) / mtbf);
  CHECK(run_long(plan).end.value == Approx(expected).epsilon(0.01));
}

TEST_CASE("Young's and Daly's intervals are the published ones", "[long-run][interval]") {
  const Seconds cost{5 * kMinute};
  CHECK(young_interval(Seconds{24 * kHour}, cost).value == Approx(120 * kMinute).epsilon(1e-12));
  // Daly 2006, figures 3 to 5: "the new model predicts" 117, 57 and 9.1 min.
  CHECK(std::round(daly_interval(Seconds{24 * kHour}, cost).value / kMinute) == 117);
  CHECK(std::round(daly_interval(Seconds{6 * kHour}, cost).value / kMinute) == 57);
  CHECK(std::round(daly_interval(Seconds{15 * kMinute}, cost).value / kMinute * 10) == 91);
  CHECK(daly_interval(Seconds{100}, Seconds{200}) == Seconds{100});
  for (const double ratio : {1e-8, 1e-4, 1e-2, 0.1, 0.5})  // Daly's series approximates this root
    CHECK(daly_interval(Seconds{1}, Seconds{ratio}).value == Approx(exact_interval(1, ratio)).epsilon(0.01));
}

TEST_CASE("the simulated interval and its goodput are the exact ones, from costly snapshots to very cheap ones",
          "[long-run][interval]") {
  const UniformDraws draw = seeded_draws(5);
  std::uint64_t drawn = 0;
  const auto between = [&](double low, double high) { return low * std::pow(high / low, draw(drawn++)); };
  const int count = test::all_cases() ? 16 : 4;
  for (int i = 0; i < count; ++i) {
    const double mtbf = between(1e3, 1e7), cost = mtbf * between(1e-7, 0.3), exact = exact_interval(mtbf, cost);
    const double restart = mtbf * between(1e-4, 0.1);
    const double background = i % 2 == 0 ? 0 : exact * between(0.01, 0.3);  // seconds of a write after its stall
    LongRunPlan plan = plan_of(0, exact / 200);
    plan.parts = {{"node", 1, Seconds{mtbf}, false}};
    plan.checkpoint.stall = Seconds{cost};
    plan.checkpoint.write = Seconds{cost + background};
    plan.recovery.restart = Seconds{restart};
    const BestInterval best = best_interval(plan);
    CAPTURE(mtbf, cost, restart, background, exact, best.simulated.value, best.daly.value);
    CHECK(best.simulated.value == Approx(exact).epsilon(0.01));
    CHECK(best.simulated.value == Approx(best.daly.value).epsilon(0.02));
    if (cost < mtbf / 1000) CHECK(best.simulated.value == Approx(best.young.value).epsilon(0.03));
    // Intervals of length t, with writes that go on for B, have the goodput t·e^(−B/M) / (M·e^(R/M)·(e^((t+C)/M) − 1)).
    for (const BestInterval::Trial& trial : best.trials) {
      const double t = trial.interval.value;
      const double goodput =
          t * std::exp(-background / mtbf) / (mtbf * std::exp(restart / mtbf) * std::expm1((t + cost) / mtbf));
      CHECK(1 - trial.goodput == Approx(1 - goodput).epsilon(0.005));
    }
  }
}

TEST_CASE("effects that Daly's formula does not include change the best interval", "[long-run][interval]") {
  LongRunPlan plan = plan_of(0, 1);
  plan.parts = {{"node", 8, Seconds{80000}, true}};
  plan.checkpoint.stall = Seconds{0.5};
  plan.checkpoint.write = Seconds{350.25};
  SECTION("a longer background write: a shorter interval would wait for it") {
    const BestInterval best = best_interval(plan);
    CHECK(best.daly.value == Approx(99.67).epsilon(1e-4));
    CHECK(best.shortest.value == 349.75);
    CHECK(best.steps == 350);
  }
  SECTION("a tiny checkpoint and years between failures: millions of checkpoints are not simulated one by one") {
    plan.step = Seconds{0.01};
    plan.parts = {{"node", 1, Seconds{1e8}, false}};
    plan.checkpoint.stall = plan.checkpoint.write = Seconds{1e-4};
    const BestInterval best = best_interval(plan);
    CHECK(best.simulated.value == Approx(best.daly.value).epsilon(1e-3));
    CHECK(best.simulated.value == Approx(best.young.value).epsilon(1e-3));
    CHECK(best.goodput > 0.9999);
  }
  SECTION("intervals are whole steps") {
    plan.step = Seconds{250};
    plan.checkpoint.write = Seconds{0.5};
    CHECK(best_interval(plan).steps == 1);
  }
  SECTION("a flat optimum: the range of intervals that are almost as good") {
    plan.checkpoint.write = Seconds{0.5};
    const BestInterval best = best_interval(plan);
    CHECK(best.goodput > 0.98);
    for (const Seconds edge : {best.range_begin, best.range_end}) {
      const double t = edge.value, mtbf = 10000, cost = 0.5;
      CHECK(best.goodput - t / (mtbf * std::expm1((t + cost) / mtbf)) < kNearBest + 1e-4);
    }
    CHECK(best.range_begin < best.simulated / 1.4);
    CHECK(best.range_end > best.simulated * 1.4);
  }
  SECTION("failures that lose no work") {
    plan.replicas = 8;
    plan.recovery.elastic = plan.recovery.state_survives = true;
    CHECK_THROWS_WITH(best_interval(plan), Catch::Contains("loses work"));
    plan.parts.push_back({"software", 1, Seconds{20000}, false});
    CHECK(time_between_losses(plan.parts, plan.recovery) == Seconds{20000});
    CHECK(time_between_losses(plan.parts, Recovery{}).value == Approx(1 / (1e-4 + 5e-5)));
  }
  CHECK_THROWS_AS(best_interval(plan_of(10)), UserError);
}

TEST_CASE("a trillion checkpoints are not simulated one by one", "[long-run]") {
  LongRunPlan plan = plan_of(1e12, 0.001);
  plan.checkpoint = {1, Seconds{1e-4}, Seconds{1e-4}, Seconds{1}};
  plan.failures = {{Seconds{5e8}, std::nullopt, "node", false}};
  const LongRunResult run = run_long(plan);
  CHECK(run.checkpoints >= 1e12);
  CHECK(run.end.value == Approx(1.1e9 + 1).epsilon(1e-9));
  plan.checkpoint = {1, Seconds{1e-4}, Seconds{2e-3}, Seconds{1}};  // each waits for the write of the last one
  CHECK(run_long(plan).end.value == Approx(2e9 + 1).epsilon(1e-6));
}

TEST_CASE("skipped steps have the results of simulated ones", "[long-run]") {
  // Failures of an absent node change nothing, but the run does not skip past them.
  LongRunPlan plan = plan_of(0, 0.25);
  plan.end_limit = Seconds{20 * kDay};
  plan.replicas = 4;
  plan.parts = {{"software", 1, Seconds{15 * kHour}, false}};
  plan.recovery = {Seconds{5}, Seconds{60}, std::nullopt, 0, true, true};
  const auto write = GENERATE(1.5, 20.0, 400.0);  // as long as its stall; in the background; longer than an interval
  CAPTURE(write);
  plan.checkpoint = {480, Seconds{1.5}, Seconds{write}, Seconds{30}};
  plan.failures = {{Seconds{0}, std::nullopt, "node", true, 2}};
  const LongRunResult skipped = run_long(plan);
  for (double failure_s = 100; failure_s < plan.end_limit.value; failure_s += 137)
    plan.failures.push_back({Seconds{failure_s}, std::nullopt, "node", true, 2});
  const LongRunResult run = run_long(plan);
  CHECK(run.failures > 10);
  CHECK(skipped.failures == run.failures);
  CHECK(skipped.steps == run.steps);
  CHECK(skipped.checkpoints == run.checkpoints);
  CHECK(skipped.lost_steps == run.lost_steps);
  CHECK(skipped.stalled.value == Approx(run.stalled.value).epsilon(1e-9));
  CHECK(skipped.lost_work.value == Approx(run.lost_work.value).epsilon(1e-9));
  CHECK(skipped.slower.value == Approx(run.slower.value).epsilon(1e-9));
}

TEST_CASE("a training that cannot advance is refused", "[long-run]") {
  LongRunPlan plan = plan_of(1000);
  plan.parts = {{"node", 1, Seconds{5}, false}};
  CHECK_THROWS_WITH(run_long(plan), Catch::Contains("the training makes no progress"));
}

TEST_CASE("steps of nanoseconds over weeks end, or are refused as too many", "[long-run]") {
  LongRunPlan plan = plan_of(0, 1e-9);
  plan.end_limit = Seconds{54 * 86400.0};
  plan.checkpoint = {600e9, Seconds{30}, Seconds{30}, Seconds{30}};
  plan.recovery.restart = Seconds{480};
  plan.parts = {{"node", 1, Seconds{3.1 * 3600}, false}};
  const LongRunResult fast = run_long(plan);
  const BestInterval best = best_interval(plan);
  LongRunPlan slow = plan;
  slow.step = Seconds{1};
  slow.checkpoint.interval_steps = 600;
  CHECK(fast.goodput() == Approx(run_long(slow).goodput()).epsilon(1e-3));
  CHECK(best.simulated.value == Approx(best_interval(slow).simulated.value).epsilon(0.01));
  CHECK(best.steps * plan.step.value == Approx(best.simulated.value).epsilon(1e-6));
  plan.step = Seconds{1e-12};
  CHECK_THROWS_WITH(run_long(plan), "the training has 4.67e+18 steps of 0.00 ns; at most 9.01e+15 are counted");
}

TEST_CASE("asynchronous workers go on without those that fail, at their own rate", "[long-run]") {
  LongRunPlan plan = plan_of(1000);
  plan.replicas = plan.nodes = 4;
  plan.recovery.detect = Seconds{10};
  plan.recovery.restart = Seconds{20};
  plan.failures = {{Seconds{100.5}, std::nullopt, "worker", false, 1, 1}};
  SECTION("a worker restarts: three quarters of the rate until then, and no step is lost") {
    const LongRunResult run = run_long(plan);
    CHECK(run.end.value == Approx(1000 + 30 / 4.0).epsilon(1e-12));
    CHECK(run.slower.value == Approx(30 / 4.0).epsilon(1e-9));
    CHECK(run.down.value == 0);
    CHECK(run.lost_steps == 0);
    CHECK(run.lost_minibatches == 1);
    CHECK(run.failures == 1);
    CHECK(run.prescribed[0].steps == 100);
    CHECK(run.prescribed[0].lost_work.value == 0);
  }
  SECTION("the remaining workers have the given rate") {
    plan.step_with = [](int workers) { return Seconds{workers == 3 ? 1.1 : 2.0}; };
    CHECK(run_long(plan).end.value == Approx(1000 + 30 - 30 / 1.1).epsilon(1e-12));
    // Three workers train for 10 s, two for 20 s, then three for 10 s.
    plan.failures.push_back({Seconds{110.5}, std::nullopt, "worker", false, 2, 1});
    CHECK(run_long(plan).end.value == Approx(1000 + 40 - 20 / 1.1 - 20 / 2.0).epsilon(1e-12));
  }
  SECTION("checkpoints are written and never read") {
    plan.checkpoint = {100, Seconds{2}, Seconds{2}, Seconds{50}};
    CHECK(run_long(plan).end.value == Approx(1000 + 20 + 28.5 / 4.0).epsilon(1e-9));  // 1.5 s of 30 in a checkpoint
    plan.failures = {{Seconds{0}, 150, "worker", false, 1, 1}};
    CHECK(run_long(plan).end.value == Approx(1000 + 20 + 30 / 4.0).epsilon(1e-12));
  }
  SECTION("a failed node without a spare is absent until repair and restart; a spare node replaces it at once") {
    plan.failures = {{Seconds{100.5}, std::nullopt, "node", true, 2, 1}};
    plan.recovery.spares = 0;
    plan.recovery.repair = Seconds{180};
    CHECK(run_long(plan).end.value == Approx(1000 + 200 / 4.0).epsilon(1e-12));
    plan.recovery.spares = 1;
    CHECK(run_long(plan).end.value == Approx(1000 + 30 / 4.0).epsilon(1e-12));
  }
  SECTION("failures that stop all workers still do, and so does that of the last worker") {
    plan.checkpoint = {100, Seconds{0}, Seconds{0}, Seconds{50}};
    plan.failures.push_back({Seconds{300.5}, std::nullopt, "server", false, std::nullopt, 0});
    const LongRunResult run = run_long(plan);  // 7.5 s late: 293 steps are done, 200 saved
    CHECK(run.down.value == 80);
    CHECK(run.lost_steps == 93);
    plan.replicas = plan.nodes = 1;
    plan.failures.pop_back();
    CHECK(run_long(plan).down.value == 80);
  }
  SECTION("random failures: as many as in a run that stops, and hardly slower than without failures") {
    plan = plan_of(1e6);
    plan.replicas = plan.nodes = 4;
    plan.recovery.restart = Seconds{100};
    plan.parts = {{"worker", 4, Seconds{40000}, false, 1}};
    const LongRunResult run = run_long(plan);
    CHECK(run.failures == Approx(100).epsilon(0.3));
    CHECK(run.end.value == Approx(1e6 + run.failures * 100 / 4).epsilon(1e-3));
    CHECK(time_between_losses(plan.parts, plan.recovery).value == 0);
  }
}

}  // namespace strategies_test_long_run
