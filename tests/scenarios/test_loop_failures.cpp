// Failures, checkpoints and restarts of a post-training loop.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/search/loop_search.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "tests/scenarios/loops.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_loop_failures {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

const std::string kCheckpoint = "checkpoint: {every: 100 steps, write: 2 s, load: 10 s}, ";
const std::string kRestart = "restart: {detect: 20 s, restart: 40 s}";

Overrides with_faults(const std::string& faults, Overrides overrides = {}) {
  overrides.emplace_back("post_training.length", "{steps: 1000}");
  overrides.emplace_back("faults", "{" + faults + "}");
  return overrides;
}

Result loop_with(const std::string& faults, const Overrides& overrides = {}) {
  return simulate_training(loop_scenario(with_faults(faults, overrides)), {.critical_path = false});
}

/// Returns the sum of the useful time, the lost times of the pools, and the unfinished step.
double summed(const FailureResult& f) {
  double sum = f.useful.value + f.unfinished.value;
  for (const FailureResult::Pool& pool : f.pools) sum += pool.lost.value;
  return sum;
}

const Overrides kApart{{"post_training.generation.nodes", "1"}, {"post_training.schedule", "one-step-off"}};
const Overrides kTwoGenerate{{"cluster.nodes", "3"}, {"post_training.generation.nodes", "2"}};

}  // namespace

TEST_CASE("a loop whose parts never fail is the loop without faults", "[post-training][failures]") {
  const Result plain = simulate_training(loop_scenario(), {.critical_path = false});
  const Result r = loop_with("failures: {mtbf: {gpu: 1e18 h, software: 1e18 h}}");
  REQUIRE(r.failures);
  CHECK(r.failures->end.value == Approx(1000 * plain.post_training->step_time.value).epsilon(1e-12));
  CHECK(r.failures->goodput == 1);
  REQUIRE(r.failures->pools.size() == 1);
  CHECK(r.failures->pools.front().name == "all");
  CHECK(r.failures->pools.front().gpus == 16);
  nlohmann::json with = to_json(r), without = to_json(plain);
  for (const char* key :
       {"failures", "goodput", "goodput_deviation", "lost_work_s", "lost_work_deviation_s", "wall_s", "training_steps",
        "training_time_s", "training_time_without_failures_s", "training_days", "training_kWh", "gpu_hours"}) {
    with.erase(key);
    without.erase(key);
  }
  CHECK(with.dump() == without.dump());
}

TEST_CASE("a loop without faults may have a length", "[post-training][failures]") {
  const Scenario s = loop_scenario({{"post_training.length", "{steps: 1000}"}});
  const Result r = simulate_training(s, {.critical_path = false});
  CHECK_FALSE(r.failures);
  const std::string time = long_time(1000 * r.post_training->step_time);
  CHECK_THAT(post_training_screen(s, r), Contains("1000 steps in " + time + ", if nothing fails"));
}

TEST_CASE("a colocated loop fails as a training whose step is the loop's", "[post-training][failures]") {
  const Result r = loop_with("failures: [{at: 550 steps, what: gpu 5}], " + kCheckpoint + kRestart);
  const double step = r.post_training->step_time.value;
  REQUIRE(r.failures);
  CHECK(r.failures->end.value == Approx(1050 * step + 10 * 2 + 20 + 40 + 10).epsilon(1e-12));
  CHECK(r.failures->lost_work.value == Approx(50 * step).epsilon(1e-12));
  CHECK(summed(*r.failures) == Approx(r.failures->end.value).epsilon(1e-12));
  CHECK(r.whole_time() == r.failures->end);

  const std::string random = "failures: {mtbf: {gpu: 300 h}, seed: 3, runs: 4}, ";
  const FailureResult drawn = *loop_with(random + kCheckpoint + kRestart).failures;
  LongRunPlan plan;
  plan.steps = 1000;
  plan.step = r.post_training->step_time;
  plan.replicas = 8;
  plan.nodes = 2;
  plan.checkpoint = {100, Seconds{2}, Seconds{2}, Seconds{10}};
  plan.recovery.detect = Seconds{20};
  plan.recovery.restart = Seconds{40};
  plan.parts = {{"gpu", 16, Seconds{300 * 3600.0}, true}};
  double end = 0;
  for (int run = 0; run < 4; ++run) {
    plan.draws = seeded_draws(static_cast<std::uint64_t>(3 + run));
    end += run_long(plan).end.value / 4;
  }
  CHECK(drawn.end.value == end);
  CHECK(drawn.failures > 0.5);
  CHECK(summed(drawn) == Approx(end).epsilon(1e-9));
  CHECK(drawn.pools.front().failures == drawn.failures);
}

TEST_CASE("a node that trains costs the steps since the checkpoint, a node that generates costs no step of training",
          "[post-training][failures]") {
  const Result trains = loop_with("failures: [{at: 550 steps, what: node 0}], " + kCheckpoint + kRestart, kApart);
  const double step = trains.post_training->step_time.value;
  CHECK(trains.failures->end.value == Approx(1050 * step + 10 * 2 + 70).epsilon(1e-12));
  REQUIRE(trains.failures->pools.size() == 2);
  CHECK(trains.failures->pools[0].lost.value == Approx(50 * step + 90).epsilon(1e-9));
  CHECK(trains.failures->pools[1].lost.value == Approx(0).margin(1e-6));
  // With the only node that generates, training waits until it is back.
  const FailureResult all = *loop_with("failures: [{at: 550 steps, what: node 1}], " + kRestart, kApart).failures;
  CHECK(all.end.value == Approx(1000 * step + 60).epsilon(1e-12));
  CHECK(all.lost_work.value == 0);
  CHECK(all.without_engines.value == Approx(60));
  CHECK(all.pools[1].lost.value == Approx(60));
  CHECK(all.pools[1].failures == 1);
  CHECK(all.failures_of.at("generating node") == 1);
}

TEST_CASE("the other engines go on, and the lost one repeats what it had in flight", "[post-training][failures]") {
  const Scenario s = loop_scenario(with_faults("failures: [{at: 550 steps, what: gpu 20}], " + kRestart, kTwoGenerate));
  const Result r = simulate_training(s, {.critical_path = false});
  const PostTrainingResult& loop = *r.post_training;
  CHECK(loop.engines == 16);
  const double all = loop.step_time.value, fewer = step_with_engines(*s.post_training, s.model.entry, loop, 8).value;
  CHECK(fewer > all);
  CHECK(loop.in_flight.value > 0);
  CHECK(loop.in_flight < loop.generation);
  const double absent = 60 + loop.in_flight.value;  // at most a step: the pace is that of half of the engines
  CHECK(r.failures->end.value == Approx(1000 * all + absent * (1 - all / fewer)).epsilon(1e-9));
  CHECK(r.failures->pools[1].lost.value == Approx(absent * (1 - all / fewer)).epsilon(1e-6));
  CHECK(summed(*r.failures) == Approx(r.failures->end.value).epsilon(1e-9));
  // With partial rollouts, the tokens are kept, and only their keys and values are computed again.
  Overrides asynchronous = kTwoGenerate;
  asynchronous.emplace_back("post_training.schedule", "asynchronous");
  const double kept = simulated_loop(asynchronous).in_flight.value;
  asynchronous.emplace_back("post_training.partial_rollouts", "false");
  CHECK(kept < 0.2 * simulated_loop(asynchronous).in_flight.value);
}

TEST_CASE("random failures of both pools sum to the whole", "[post-training][failures]") {
  const std::string faults =
      "failures: {mtbf: {gpu: 300 h, software: 40 h, link: 1000 h}, runs: 5}, " + kCheckpoint + kRestart;
  const Result r = loop_with(faults, kTwoGenerate);
  const FailureResult& f = *r.failures;
  CHECK(summed(f) == Approx(f.end.value).epsilon(1e-9));
  CHECK(f.pools[0].gpus == 8);
  CHECK(f.pools[1].gpus == 16);
  CHECK(f.pools[0].failures + f.pools[1].failures == Approx(f.failures));
  CHECK(f.pools[1].failures > 0);
  CHECK(f.pools[0].lost > f.pools[1].lost);  // a failure that stops training costs more
  const Result timed = simulate_training(loop_scenario({{"cluster.nodes", "3"},
                                                        {"post_training.generation.nodes", "2"},
                                                        {"post_training.length", "{time: 1 d}"},
                                                        {"faults", "{" + faults + "}"}}),
                                         {.critical_path = false});
  CHECK(timed.failures->end.value == Approx(86400));
  CHECK(timed.failures->unfinished.value > 0);
  CHECK(summed(*timed.failures) == Approx(86400));
}

TEST_CASE("tokens in flight grow with the square of the length", "[post-training][failures]") {
  const PlainCosts costs;
  const EngineRun run = run_engine(costs, std::vector<PlannedAnswer>(50, {0, 200}), kLimits);
  const double decoding = 199 * (1e-3 + 50e-4);  // from one token to 200
  CHECK(run.token_seconds == Approx(50 * 201 / 2.0 * decoding).epsilon(1e-12));
}

TEST_CASE("a search counts the failures of each placement in its samples per second", "[post-training][failures]") {
  const std::string faults = "failures: {mtbf: {gpu: 300 h}}, " + kCheckpoint + kRestart;
  const LoopAnswer with = search_loops(loop_scenario(with_faults(faults)), {}),
                   without = search_loops(loop_scenario(), {});
  CHECK(with.has_failures);
  CHECK_FALSE(without.has_failures);
  REQUIRE(with.rows.size() == without.rows.size());
  for (const LoopRow& row : with.rows) {
    CAPTURE(row.generation_nodes, row.engine_gpus, row.error);
    REQUIRE(row.error.empty());
    CHECK(row.goodput < 1);
    const auto same = std::ranges::find_if(without.rows, [&](const LoopRow& r) {
      return r.generation_nodes == row.generation_nodes && r.hybrid == row.hybrid && r.engine_gpus == row.engine_gpus;
    });
    REQUIRE(same != without.rows.end());
    CHECK(same->goodput == 1);
    CHECK(row.step_time == same->step_time);
    CHECK(row.samples_per_s == Approx(same->samples_per_s * row.goodput));
    CHECK(row.likely_samples->front() == Approx(same->likely_samples->front() * row.goodput));
    // `run` of that placement has the same goodput.
    const Scenario run = loop_scenario(with_faults(faults, row.changes));
    CHECK(simulate_training(run, {.critical_path = false}).failures->goodput == Approx(row.goodput));
  }
  for (std::size_t i = 1; i < with.rows.size(); ++i)
    CHECK(with.rows[i - 1].samples_per_s >= with.rows[i].samples_per_s);
  // The same rate needs more nodes when parts fail.
  const double wanted = 1.05 * with.best()->samples_per_s;
  const std::string frequent = "failures: {mtbf: {gpu: 60 h}}, " + kCheckpoint + kRestart;
  const LoopAnswer failing = search_loops(loop_scenario(with_faults(frequent)), {wanted, 0}),
                   sound = search_loops(loop_scenario(), {wanted, 0});
  REQUIRE(failing.best() != nullptr);
  REQUIRE(sound.best() != nullptr);
  CHECK(failing.best()->nodes > sound.best()->nodes);
  CHECK(failing.best()->samples_per_s >= wanted);
}

TEST_CASE("what is not modelled of a loop's failures is refused", "[post-training][failures][errors]") {
  const std::string mtbf = "failures: {mtbf: {gpu: 300 h}}, ";
  check_loop_refused(with_faults(mtbf + "restart: {elastic: true}"), "faults.restart.elastic: not modelled");
  check_loop_refused(with_faults(mtbf + "restart: {spares: 1, repair: 1 h}", kApart), "every failed node is replaced");
  check_loop_refused(with_faults("stragglers: {2: 1.5}"), "stragglers");
  check_loop_refused({{"faults", "{" + mtbf + kRestart + "}"}}, "expected post_training.length");
  check_loop_refused({{"post_training.length", "{steps: 10, time: 1 d}"}, {"faults", "{" + mtbf + "}"}},
                     "expected one of steps and time");
}

}  // namespace scenarios_test_loop_failures
