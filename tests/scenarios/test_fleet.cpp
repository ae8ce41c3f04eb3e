// Trainings that queue on one cluster: their order, interruptions, and the sum of all node-hours.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/fleet/fleet.hpp"
#include "tests/scenarios/explained_keys.hpp"
#include "tests/scenarios/queues.hpp"
#include "tests/svg_checks.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_fleet {

using namespace trainyard;
using namespace trainyard::test;

namespace {

const char* kTraining =
    "model: {base: gpt2, n_layer: 2}, plan: {micro_batch_size: 4, global_batch_size: 64, precision: bf16, training: "
    "{steps: 100000}}";

FleetFile read(const std::string& rules, const std::string& trainings, int nodes = 2) {
  return read_fleet(parse_document(fmt::format("cluster: {{nodes: {}, node: dgx-a100, fabric: nonblocking}}\nsoftware: "
                                               "pytorch-ddp\nfleet: {{{}}}\ntrainings:\n{}",
                                               nodes, rules, trainings),
                                   "fleet.yaml"),
                    "fleet");
}
std::string training(const std::string& keys) { return fmt::format("- {{{}, {}}}\n", keys, kTraining); }

std::string refusal(const std::string& rules, const std::string& trainings) {
  return test::user_error([&] { answer_fleet(read(rules, trainings)); });
}

}  // namespace

TEST_CASE("a training alone ends after its steps, and two share a cluster by halves", "[fleet]") {
  const QueueResult single = run({.nodes = 2}, {{size_of(2, 0.1)}}, {{0, Seconds{7}, 123}});
  CHECK(single.outcomes[0].start.value == 7);
  CHECK(single.outcomes[0].end.value == 7 + 123 * 0.1);
  CHECK(single.mean_length == 0);
  const QueueResult two = run({.nodes = 4}, {{size_of(2, 0.5)}}, {{0, Seconds{}, 40}, {0, Seconds{}, 40}});
  for (const QueueOutcome& outcome : two.outcomes) {
    CHECK(outcome.end.value == 20);
    CHECK(outcome.time.sum() == outcome.time.steps);
    CHECK(outcome.failures + outcome.preemptions == 0);
  }
  CHECK(two.idle == Approx(4 * 1000 - 2 * 2 * 20));
}

TEST_CASE("a queue by hand: in order, or with backfill of those that delay nothing", "[fleet]") {
  const std::vector<std::vector<QueueSize>> sizes{{size_of(3, 1)}, {size_of(2, 1)}, {size_of(1, 1)}};
  std::vector<QueueArrival> arrivals{{0, Seconds{0}, 10}, {1, Seconds{1}, 5}, {2, Seconds{2}, 2}};
  const QueueResult fifo = run({.nodes = 4}, sizes, arrivals);
  CHECK(fifo.outcomes[1].start.value == 10);
  CHECK(fifo.outcomes[1].end.value == 15);
  CHECK(fifo.outcomes[2].start.value == 10);
  CHECK(fifo.longest == 2);
  CHECK(fifo.mean_length == Approx((9 + 8) / 1000.0));
  const QueueResult backfill = run({.nodes = 4, .backfill = true}, sizes, arrivals);
  CHECK(backfill.outcomes[1].start.value == 10);
  CHECK(backfill.outcomes[2].start.value == 2);
  arrivals[2].steps = 100;  // still runs when the second begins, on a node that this leaves idle
  CHECK(run({.nodes = 4, .backfill = true}, sizes, arrivals).outcomes[2].start.value == 2);
  arrivals[1].training = 0;  // the second now needs three nodes, and the third would take one of them
  const QueueResult behind = run({.nodes = 3 + 1, .spares = 1, .backfill = true}, sizes, arrivals);
  CHECK(behind.outcomes[2].start.value == 15);
  arrivals[2].priority = 1;
  CHECK(run({.nodes = 3, .policy = QueuePolicy::priority}, sizes, arrivals).outcomes[1].start.value == 110);
}

TEST_CASE("preemption by hand: the work since the last checkpoint is lost", "[fleet]") {
  QueueSize low = size_of(2, 1);
  low.checkpoint = {10, Seconds{1}, Seconds{1}, Seconds{2}};
  low.recovery.restart.value = 3;
  const std::vector<QueueArrival> arrivals{{0, Seconds{0}, 100, 0}, {1, Seconds{25}, 20, 1}};
  const QueueRules rules{.nodes = 2, .policy = QueuePolicy::preemptive};
  const QueueResult result = run(rules, {{low}, {size_of(2, 1)}}, arrivals);
  CHECK(result.outcomes[1].start.value == 25);
  CHECK(result.outcomes[1].end.value == 45);
  const QueueOutcome& stopped = result.outcomes[0];
  // Checkpoints after 10 and 20 steps end at 11 and 22 s; 3 more steps are lost. 80 steps with 8 checkpoints follow.
  CHECK(stopped.preemptions == 1);
  CHECK(stopped.time.lost_to_preemption == 3);
  CHECK(stopped.time.waiting == 20);
  CHECK(stopped.time.restarts == 5);
  CHECK(stopped.time.checkpoints == 2 + 8);
  CHECK(stopped.time.steps == 100);
  CHECK(stopped.end.value == 45 + 5 + 88);
  REQUIRE(stopped.stays.size() == 2);
  CHECK(stopped.stays[0].end.value == 25);
  // A training of the same priority waits.
  CHECK(run(rules, {{low}, {size_of(2, 1)}}, {{0, Seconds{0}, 100, 1}, {1, Seconds{25}, 20, 1}})
            .outcomes[0]
            .preemptions == 0);
}

TEST_CASE("a training takes the number of nodes with which it would end first", "[fleet]") {
  const std::vector<std::vector<QueueSize>> sizes{{size_of(1, 1)}, {size_of(1, 4), size_of(2, 2)}};
  // One of two nodes is busy for 100 s. On one node 100 steps take 400 s, on both 200 s.
  const QueueResult waits = run({.nodes = 2}, sizes, {{0, Seconds{0}, 100}, {1, Seconds{0}, 100}});
  CHECK(waits.outcomes[1].start.value == 100);
  CHECK(waits.outcomes[1].end.value == 300);
  const QueueResult starts = run({.nodes = 2}, sizes, {{0, Seconds{0}, 300}, {1, Seconds{0}, 100}});
  CHECK(starts.outcomes[1].end.value == 400);
}

TEST_CASE("spares wait for failures only, and a training without one waits for the repair", "[fleet]") {
  const QueueSize sound = size_of(1, 1);
  const QueueResult kept = run({.nodes = 3, .spares = 1}, {{sound}}, std::vector<QueueArrival>(3, {0, Seconds{}, 10}));
  CHECK(kept.outcomes[2].start.value == 10);
  CHECK(kept.spare == Approx(1000));
  QueueSize size = failing(size_of(1, 1), 100, 50);
  size.checkpoint = {1, Seconds{}, Seconds{}, Seconds{}};
  const QueueResult none = run({.nodes = 1}, {{size}}, {{0, Seconds{}, 500}});
  CHECK(none.outcomes[0].failures > 0);
  CHECK(none.outcomes[0].time.waiting == Approx(50.0 * none.outcomes[0].failures));
  CHECK(none.outcomes[0].stays.size() == 1U + static_cast<unsigned>(none.outcomes[0].failures));
  const QueueResult spare = run({.nodes = 2, .spares = 1}, {{size}}, {{0, Seconds{}, 500}});
  CHECK(spare.outcomes[0].time.waiting < none.outcomes[0].time.waiting);
  CHECK(spare.repair > 0);
}

TEST_CASE("a training with spares for all failures ends as in a run of its failures alone", "[fleet]") {
  for (const double write : {2.0, 30.0, 200.0}) {
    QueueSize size = failing(size_of(4, 1.5), 20000, 1e5);
    size.recovery.detect.value = 20;
    size.recovery.restart.value = 70;
    size.checkpoint = {100, Seconds{std::min(write, 8.0)}, Seconds{write}, Seconds{11}};
    LongRunPlan plan;
    plan.steps = 20050;
    plan.step = size.step;
    plan.checkpoint = size.checkpoint;
    plan.recovery = size.recovery;
    plan.parts = size.parts;
    plan.draws = queue_draws(1, 0, 0);
    const LongRunResult alone = run_long(plan);
    const QueueResult queued =
        run({.nodes = 1000, .spares = 996, .horizon = Seconds{5e4}}, {{size}}, {{0, Seconds{}, plan.steps}});
    const QueueOutcome& outcome = queued.outcomes[0];
    CAPTURE(write, alone.failures);
    CHECK(alone.failures > 3);
    CHECK(outcome.failures == alone.failures);
    CHECK(outcome.end.value == Approx(alone.end.value).epsilon(1e-9));
    CHECK(outcome.time.steps == Approx(alone.useful.value).epsilon(1e-9));
    CHECK(outcome.time.lost_to_failures == Approx(alone.lost_work.value).epsilon(1e-9));
    CHECK(outcome.time.checkpoints == Approx(alone.stalled.value).epsilon(1e-9));
    CHECK(outcome.time.restarts == Approx(alone.down.value).epsilon(1e-9));
  }
}

TEST_CASE("in order and without failures, more nodes let no training end later", "[fleet]") {
  const UniformDraws draw = seeded_draws(3);
  for (std::uint64_t round = 0; round < 40; ++round) {
    std::vector<std::vector<QueueSize>> sizes;
    std::vector<QueueArrival> arrivals;
    double time = 0;
    for (std::uint64_t i = 0; i < 25; ++i) {
      const auto next = [&](std::uint64_t k) { return draw(round * 1000 + i * 10 + k); };
      sizes.push_back({size_of(1 + static_cast<int>(next(0) * 8), 0.5 + next(1))});
      arrivals.push_back({static_cast<std::size_t>(i), Seconds{time}, std::floor(10 + 50 * next(2))});
      time += 20 * next(3);
    }
    std::vector<double> ends(arrivals.size(), HUGE_VAL);
    for (int nodes = 8; nodes < 30; ++nodes) {
      const QueueResult result = run({.nodes = nodes}, sizes, arrivals);
      for (std::size_t i = 0; i < ends.size(); ++i) {
        CHECK(result.outcomes[i].end.value <= ends[i] + 1e-9);
        ends[i] = result.outcomes[i].end.value;
        CHECK(result.outcomes[i].time.lost_to_failures + result.outcomes[i].time.lost_to_preemption == 0);
      }
    }
  }
}

TEST_CASE("any policy with failures keeps the sum of node-hours, and repeats by its seed", "[fleet]") {
  const UniformDraws draw = seeded_draws(5);
  for (std::uint64_t round = 0; round < 60; ++round) {
    std::vector<std::vector<QueueSize>> sizes;
    std::vector<QueueArrival> arrivals;
    double time = 0;
    for (std::uint64_t i = 0; i < 20; ++i) {
      const auto next = [&](std::uint64_t k) { return draw(round * 1000 + i * 10 + k); };
      const int nodes = 1 + static_cast<int>(next(0) * 3);
      for (const int factor : {1, 2}) {
        QueueSize size = failing(size_of(nodes * factor, 2.0 / factor), 3000, 100);
        size.checkpoint = {10, Seconds{0.5}, Seconds{3 * next(4) + 0.5}, Seconds{1}};
        size.recovery.restart.value = 4;
        if (factor == 1) sizes.emplace_back();
        sizes.back().push_back(size);
      }
      arrivals.push_back(
          {static_cast<std::size_t>(i), Seconds{time}, std::floor(10 + 50 * next(2)), static_cast<int>(3 * next(5))});
      time += 30 * next(3);
    }
    for (const QueuePolicy policy : {QueuePolicy::fifo, QueuePolicy::priority, QueuePolicy::preemptive}) {
      const QueueRules rules{9, 1, policy, round % 2 == 0, Seconds{500}, round, Seconds{round % 3 == 0 ? 0.0 : 2.5}};
      const QueueResult result = run(rules, sizes, arrivals), again = run(rules, sizes, arrivals);
      int preemptions = 0;
      for (std::size_t i = 0; i < arrivals.size(); ++i) {
        CHECK(result.outcomes[i].end.value == again.outcomes[i].end.value);
        CHECK(result.outcomes[i].time.steps >= arrivals[i].steps * sizes[i].back().step.value - 1e-6);
        preemptions += result.outcomes[i].preemptions;
      }
      CHECK((policy == QueuePolicy::preemptive || preemptions == 0));
    }
  }
}

TEST_CASE("the step of a fleet is that of a run with the same keys, and its figures agree", "[fleet]") {
  const FleetFile file = read(
      "horizon: 1 d", training("name: a, nodes: [1, 2]") + training("name: b, nodes: 1, count: 3, deadline: 40 h"));
  const FleetAnswer a = answer_fleet(file);
  const Scenario alone = read_scenario_text(
      fmt::format("{{cluster: {{nodes: 2, node: dgx-a100, fabric: nonblocking}}, software: pytorch-ddp, {}}}",
                  kTraining),
      "alone.yaml");
  REQUIRE(a.steps.size() == 3);
  CHECK(a.steps[1].step_time == simulate(alone).step_time.value);
  CHECK(a.steps[1].alone_time == Approx(1e5 * a.steps[1].step_time));
  CHECK(a.steps[0].step_time == a.steps[2].step_time);
  CHECK(a.runs == 1);
  CHECK(a.use.sum() == Approx(2 * 24));
  CHECK(a.use.lost_to_failures + a.use.lost_to_preemption + a.use.restarts + a.use.checkpoints == 0);
  // All arrive at once: the first takes both nodes, then two of the others run beside each other.
  REQUIRE(a.rows.size() == 4);
  CHECK(a.rows[0].outcome.end.value == Approx(a.steps[1].alone_time));
  CHECK(a.rows[2].outcome.end.value == Approx(a.steps[1].alone_time + a.steps[0].alone_time));
  CHECK(a.rows[3].name == "b 3");
  CHECK(a.rows[3].outcome.end.value == Approx(a.steps[1].alone_time + 2 * a.steps[0].alone_time));
  CHECK_THAT(a.verdict,
             Catch::Contains("2 nodes (16 GPUs, 0 spares)") && Catch::Contains(percent(a.use.steps / a.use.sum())));
  CHECK(a.tightest() != nullptr);
  CHECK_THAT(a.limit,
             Catch::StartsWith(a.tightest()->name) &&
                 Catch::Contains(long_time(Seconds{a.tightest()->outcome.time.steps})) &&
                 Catch::Contains(fmt::format("ends {} before its time is up",
                                             long_time(Seconds{a.tightest()->due - a.tightest()->outcome.end.value}))));
}

TEST_CASE("runs with late trainings are counted, shown, and counted again with slow steps", "[fleet]") {
  const std::string faults =
      "faults: {failures: {mtbf: {node: 60 h}}, checkpoint: {every: 100 steps, write: 1 s, load: 1 s}, restart: "
      "{restart: 10 min, repair: 6 h}}";
  const std::string keys = "name: a, nodes: 1, count: 2, " + faults;
  const double alone = answer_fleet(read("horizon: 9 d", training(keys))).steps[0].alone_time;
  for (const double slack : {0.999, 1.05, 1.3, 100.0}) {
    const FleetAnswer a = answer_fleet(
        read("horizon: 9 d, runs: 12", training(fmt::format("{}, deadline: {:.0f} s", keys, slack * alone))));
    CAPTURE(slack, a.verdict);
    CHECK(a.runs == 12);
    REQUIRE(a.good_slow_runs);
    CHECK(*a.good_slow_runs <= a.good_runs);
    CHECK((slack > 1 || a.good_runs == 0));
    CHECK((slack < 100 || *a.good_slow_runs == 12));
    const bool shows_late = std::ranges::any_of(a.rows, [](const FleetRow& row) { return !row.in_time(); });
    CHECK(shows_late != a.is_enough());
    REQUIRE(a.tightest());
    const QueueOutcome& tightest = a.tightest()->outcome;
    CHECK(tightest.time.sum() == Approx(tightest.end.value - a.tightest()->arrival));
    for (const auto& [part, name] : {std::pair{tightest.time.steps, "steps "},
                                     {tightest.time.waiting, "waiting for nodes "},
                                     {tightest.time.lost_to_failures, "steps repeated after failures "},
                                     {tightest.time.restarts, "restarts "},
                                     {tightest.time.checkpoints, "checkpoints "}}) {
      const std::string words = name + long_time(Seconds{part});
      CHECK((a.limit.find(words) != std::string::npos) == (part > 0));
    }
    CHECK((a.shown_run == 1 || shows_late));
    CHECK(a.is_enough() == (a.groups[0].in_time == 1));
    CHECK_THAT(a.verdict, Catch::Contains(fmt::format("80 % intervals, {} of 12 runs", *a.good_slow_runs)));
    CHECK(a.is_enough() == (a.good_runs == 12));
    CHECK_THAT(a.verdict,
               Catch::Contains(a.is_enough() ? " enough: no training is late in 12 runs."
                                             : fmt::format("in run {}, and {} of 12 runs have no late training",
                                                           a.shown_run, a.good_runs)));
  }
}

TEST_CASE("the fewest nodes are found, and a deadline that none meets is named", "[fleet]") {
  const double alone = answer_fleet(read("horizon: 9 d", training("name: a, nodes: 1"))).steps[0].alone_time;
  const std::string four = training(fmt::format("name: a, nodes: 1, count: 4, deadline: {:.0f} s", 2.5 * alone));
  const FleetAnswer found = answer_fleet(read("horizon: 9 d", four, 9), {.choose = true});
  CHECK(found.nodes == 2);
  REQUIRE(found.tries.size() == 2);
  CHECK(found.tries[0].late == 2);
  CHECK(found.tries[1].late == 0);
  CHECK_THAT(found.verdict, Catch::Contains("2 nodes") && Catch::Contains("the fewest of those tried"));
  const FleetAnswer none =
      answer_fleet(read("horizon: 9 d", training(fmt::format("name: a, nodes: 1, deadline: {:.0f} s", 0.5 * alone))),
                   {.choose = true});
  CHECK_FALSE(none.is_enough());
  CHECK_THAT(none.verdict, Catch::Contains("No number of nodes that was tried is enough"));
  CHECK_THAT(none.limit,
             Catch::Contains("a larger cluster does not help") && Catch::Contains(long_time(Seconds{alone})));
  CHECK(answer_fleet(read("horizon: 9 d", four, 9)).nodes == 9);
  // Given nodes that are not enough: the answer says how many are, and that number is enough.
  const FleetAnswer few = answer_fleet(read("horizon: 9 d", four, 1));
  CHECK_FALSE(few.is_enough());
  REQUIRE(few.enough);
  CHECK(few.enough->nodes == found.nodes);
  CHECK_THAT(few.verdict, Catch::Contains("1 node (8 GPUs, 0 spares) is not enough") &&
                              Catch::Contains(fmt::format("{} nodes with 0 spares would be enough", found.nodes)));
  CHECK(answer_fleet(read("horizon: 9 d", four, 1), {.nodes = few.enough->nodes, .spares = few.enough->spares})
            .is_enough());
  // Whatever the given number and its spares, the answer names the same cluster as the search.
  for (const int nodes : {1, 2, 3})
    for (const int spares : {0, 1}) {
      if (nodes <= spares) continue;
      FleetFile given = read("horizon: 9 d", four, nodes);
      given.spares = spares;
      const FleetAnswer a = answer_fleet(given);
      CAPTURE(nodes, spares, a.verdict);
      CHECK(a.is_enough() == (nodes - spares >= 2));
      CHECK(a.enough.has_value() != a.is_enough());
      if (a.enough) CHECK(a.enough->nodes == found.nodes);
      CHECK(a.enough_above.has_value() == (a.enough && a.enough->nodes < nodes));
    }
  const FleetAnswer hopeless =
      answer_fleet(read("horizon: 9 d", training(fmt::format("name: a, nodes: 1, deadline: {:.0f} s", 0.5 * alone))));
  CHECK(hopeless.tries.empty());
  CHECK_FALSE(hopeless.enough);
  CHECK(hopeless.steps[0].alone_time > hopeless.rows[0].due);
  CHECK_THAT(hopeless.verdict, Catch::Contains("No number of nodes is: a would be late on a cluster of its own."));
  CHECK(answer_fleet(read("horizon: 9 d", four, 9), {.nodes = 3, .spares = 1}).rows[2].outcome.start.value ==
        Approx(alone));
}

TEST_CASE("the JSON, the table and the picture of a fleet have every explained key", "[fleet]") {
  FleetFile file =
      read("horizon: 20 d, spares: 1, policy: preemptive, backfill: true, runs: 2",
           training("name: a, nodes: {from: 1, to: 3}, mean_interval: 2 d, faults: {failures: {mtbf: {node: 20 h}}, "
                    "checkpoint: {every: 100 steps, write: 1 s, load: 1 s}, restart: {restart: 1 min, repair: 1 d}}") +
               training("name: b, nodes: 2, priority: 1, every: 3 d, deadline: 2 d"),
           3);
  file.prices = read_prices(parse_document(
      "{gpu_hour: {a100-sxm4-80gb: 2}, reserved: [{months: 1, gpu_hour: {a100-sxm4-80gb: 1}}], purchase: "
      "{node: {dgx-a100: 100000}, kwh: 0.1}}",
      "prices.yml"));
  file.site.racks = 8;
  const FleetAnswer a = answer_fleet(file, {.choose = true, .most_nodes = 4});
  const nlohmann::ordered_json json = fleet_json(a);
  test::check_explained_keys(json, "fleet", "ownership.");
  const auto& owned = json.at("ownership");
  CHECK(owned.at("purchase") == 100000.0 * a.nodes);
  CHECK(owned.at("per_million").get<double>() > 0);
  REQUIRE(owned.at("break_evens").size() == 2);
  CHECK(owned.at("break_evens").at(0).at("year") == Approx(2.0 * 8 * a.nodes * 8760));
  CHECK(owned.at("break_evens").at(1).at("terms") == "reserved 1 month");
  CHECK_THAT(a.left_out, Catch::StartsWith("a: 3 nodes; ") && Catch::Contains("on 3 nodes"));
  const double hours = a.nodes * 20 * 24;
  CHECK(a.use.sum() == Approx(hours));
  const auto cost = [&a](const std::string& terms) {
    return std::ranges::find(a.costs, terms, &FleetCost::terms)->money;
  };
  CHECK(cost("on demand") == Approx(2 * 8 * hours));
  CHECK(cost("reserved 1 month") == Approx(8 * a.nodes * kHoursOfMonth));
  CHECK(cost("purchase") > 0);
  double node_hours = 0, money = 0, money_of_groups = 0;
  for (const FleetGroup& group : a.groups) money_of_groups += group.money;
  CHECK(money_of_groups == Approx(a.costs.front().money));
  for (const FleetRow& row : a.rows) {
    node_hours += row.outcome.node_seconds.on_nodes() / 3600;
    money += row.money;
  }
  // The trainings of the shown run pay for the whole cluster, idle nodes included, by their node-hours.
  CHECK(node_hours < hours);
  CHECK(money == Approx(a.costs.front().money));
  CHECK(a.rows.front().money / a.costs.front().money ==
        Approx(a.rows.front().outcome.node_seconds.on_nodes() / 3600 / node_hours));
  const std::string csv = fleet_csv(a);
  CHECK(std::ranges::count(csv, '\n') == 1 + static_cast<long>(a.rows.size()));
  CHECK(csv.starts_with("name,priority,arrival_s,"));
  test::well_formed(fleet_picture(a));
  CHECK_THAT(fleet_picture(a), Catch::StartsWith("<svg") && Catch::Contains("b on so many nodes"));
}

TEST_CASE("the verdict of a fleet names at risk only trainings that can be on its cluster", "[fleet]") {
  FleetAnswer a;
  a.nodes = 18;
  a.spares = 1;
  a.runs = a.good_runs = 1;
  a.use.steps = 1;
  for (const int nodes : {8, 17, 18, 64}) {
    FleetStep& step = a.steps.emplace_back();
    step.training = "big";
    step.nodes = nodes;
    step.risk = 0.4;
  }
  judge_fleet(a);
  CHECK_THAT(a.verdict, Catch::Contains("big on 8 nodes") && Catch::Contains("big on 17 nodes") &&
                            !Catch::Contains("on 18 nodes") && !Catch::Contains("64"));
  CHECK(ranges_in_words({17, 18, 19, 20, 22, 24, 25}) == "17 to 20, 22, 24 to 25");
  CHECK(ranges_in_words({1}) == "1");
  CHECK(ranges_in_words({}).empty());
}

TEST_CASE("files that describe no fleet are refused with the place", "[fleet]") {
  const std::string good = training("nodes: 1");
  for (const auto& [rules, trainings, words] : std::vector<std::array<std::string, 3>>{
           {"policy: lifo", good, "fleet.policy: unknown"},
           {"horizon: 0 s", good, "fleet.horizon: more than 0"},
           {"spares: -1", good, "fleet.spares"},
           {"spares: 2", good, "training1 needs at least 1 node, but the cluster has 2, 2 of them spare"},
           {"", training("nodes: 1, arival: 1 d"), "unknown key \"arival\" in trainings; did you mean \"arrival\"?"},
           {"", training("nodes: 0"), "trainings.nodes"},
           {"", training("nodes: 1, cluster: 3"), "trainings.cluster: trainings share the cluster of the file"},
           {"", training("nodes: 1, every: 0 s"), "trainings.every: more than 0 expected"},
           {"", training("nodes: 1, mean_interval: 0 s"), "trainings.mean_interval: more than 0 expected"},
           {"policy: fifo, grace_time: 5 min", good, "fleet.grace_time: "},
           {"spares: 1", training("nodes: 2"), "needs at least 2 nodes, but the cluster has 2, 1 of them spare"},
           {"", training("nodes: [1, 1]"), "the number 1 stands there twice"},
           {"", training("nodes: {from: 3, to: 2}"), "trainings.nodes.to: 2; expected 3 to 66"},
           {"", training("nodes: [1, 3]"), "(on 3 nodes)"},
           {"", training("nodes: {from: 3, to: 3}"), "the plan runs on no number of the range"},
           {"", training("nodes: 1, arrival: -3 d"), "trainings.arrival"},
           {"", training("nodes: 1, arrival: 400 d"), "arrives after the horizon of 365 days"},
           {"", training("nodes: 1, deadline: 0 s"), "trainings.deadline: more than 0"},
           {"", training("nodes: 1, every: 1 d, mean_interval: 1 d"), "leave one of them out"},
           {"", training("nodes: 1, every: 1 s"), "more than 100000 arrivals"},
           {"", training("name: a, nodes: 1") + training("name: a, nodes: 1"), "two trainings have the name a"},
           {"", training("nodes: 1, faults: {failures: {mtbf: {node: 900 h}}}"), "expected faults.restart.repair"},
           {"", training("nodes: 1, faults: {failures: {mtbf: {node: 900 h}}, restart: {spares: 2, repair: 1 d}}"),
            "expected fleet.spares"},
           {"", training("nodes: 1, faults: {failures: [{at: 1 h, what: gpu 5}]}"), "expected mtbf"},
           {"", "- {nodes: 1, model: gpt2, plan: {micro_batch_size: 4}}\n", "expected plan.training"},
           {"", "- {nodes: [1, 2], model: gpt2, plan: {micro_batch_size: 1, training: {steps: 10}}}\n",
            "expected plan.global_batch_size"},
           {"", "- {nodes: 1, model: llama-3-70b, plan: {micro_batch_size: 8, training: {steps: 10}}}\n",
            "does not fit into the memory"},
       }) {
    CAPTURE(rules, trainings);
    CHECK_THAT(refusal(rules, trainings), Catch::StartsWith("fleet.yaml:") && Catch::Contains(words));
  }
  CHECK_FALSE(
      test::user_error([&] {
        read_fleet(parse_document("cluster: {node: dgx-a100}\ntrainings:\n" + good, "f.yaml"), "f", {{"fleet", "3"}});
      }).empty());
  CHECK_THAT(test::user_error([] { read_scenario_text("{cluster: {node: dgx-a100}, trainings: []}", "x.yaml"); }),
             Catch::Contains("trainyard fleet FILE"));
}

}  // namespace scenarios_test_fleet
