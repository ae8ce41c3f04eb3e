// Gossip, late updates, local steps, asynchronous workers and stragglers: the answer is the steady rate.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/steady_state.hpp"
#include "sim/hashing.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_steady_state {

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Nodes of one GPU, each on a wire to one switch. A step computes for 100 ms.
Scenario replicas_of(int nodes, const std::string& data_parallel, const std::string& more = "",
                     const Overrides& overrides = {}) {
  return read_scenario_text(
      fmt::format("cluster: {{nodes: {}, node: {{base: pcie-1, gpu: {{type: p100-pcie-16gb}}, hca: {{count: 1, rate: 8 "
                  "Gbit/s, latency: 0 us}}}}, fabric: nonblocking}}\n"
                  "model: {{mlp: {{widths: [1000, 1000, 1000]}}}}\n"
                  "plan: {{micro_batch_size: 2048, precision: fp32, optimizer: sgd, collectives: messages, "
                  "measured_step: {{source: me, network: mlp, table: {{2048: 100 ms}}}}, data_parallel: {{{}}}}}\n"
                  "{}",
                  nodes, data_parallel, more),
      "replicas.yaml", overrides);
}

Result run_replicas(int nodes, const std::string& data_parallel, const std::string& more = "",
                    const Overrides& overrides = {}) {
  return simulate(replicas_of(nodes, data_parallel, more, overrides), {.critical_path = false});
}

std::string refusal_of(int nodes, const std::string& data_parallel, const Overrides& overrides = {}) {
  return user_error([&] { plan(replicas_of(nodes, data_parallel, "", overrides)); });
}

constexpr double kWeights = 4 * (2e6 + 2000);  // bytes

}  // namespace

TEST_CASE("gossip takes the time of all neighbours' parameters over one wire, on any graph", "[replicas]") {
  struct Case {
    const char* gossip;
    int nodes, degree;
  };
  for (const Case& c :
       {Case{"ring", 2, 1}, Case{"ring", 3, 2}, Case{"ring", 4, 2}, Case{"ring", 5, 2}, Case{"ring", 8, 2},
        Case{"ring", 17, 2}, Case{"torus", 9, 4}, Case{"torus", 12, 4}, Case{"torus", 16, 4}, Case{"pairs", 8, 1},
        Case{"pairs", 9, 1}, Case{"{edges: [[0, 1], [1, 2], [2, 3]]}", 4, 2},
        Case{"{edges: [[0, 1], [0, 2], [0, 3], [3, 4], [1, 2]]}", 5, 3}}) {
    CAPTURE(c.gossip, c.nodes);
    const std::string plan = fmt::format("gossip: {}", c.gossip);
    const double slow = run_replicas(c.nodes, plan).step_time.value,
                 fast = run_replicas(c.nodes, plan, "", {{"cluster.node.hca.rate", "16 Gbit/s"}}).step_time.value;
    CHECK(slow - fast == near(c.degree * kWeights * (1 / 1e9 - 1 / 2e9)));
    CHECK(slow > 0.1 + c.degree * kWeights / 1e9);
  }
}

TEST_CASE("if a rank has more neighbours than streams, neighbours share a stream", "[replicas]") {
  std::string edges;
  for (int leaf = 1; leaf <= 70; ++leaf) edges += fmt::format("{}[0, {}]", leaf > 1 ? ", " : "", leaf);
  const std::string plan = fmt::format("gossip: {{edges: [{}]}}", edges);
  const double slow = run_replicas(71, plan).step_time.value,
               fast = run_replicas(71, plan, "", {{"cluster.node.hca.rate", "16 Gbit/s"}}).step_time.value;
  CHECK(slow - fast == near(70 * kWeights * (1 / 1e9 - 1 / 2e9)));
}

TEST_CASE("an edge of gossip that is listed twice is refused", "[replicas]") {
  CHECK_THAT(refusal_of(3, "gossip: {edges: [[0, 1], [1, 2], [1, 0]]}"),
             Catch::StartsWith("replicas.yaml:3") && Catch::Contains("edge 1 - 0 is listed twice"));
}

TEST_CASE("the result says how replicas exchange parameters, and names an all-reduce only if there is one",
          "[replicas]") {
  const nlohmann::json ring = to_json(run_replicas(8, "gossip: ring"));
  CHECK_FALSE(ring.contains("all_reduce"));
  CHECK(ring.at("replicas").at("gossip") == "ring");
  CHECK(ring.at("replicas").at("neighbours") == 2);
  CHECK(ring.at("replicas").at("spectral_gap") == near(1 - (1 + 2 * std::cos(2 * M_PI / 8)) / 3));
  CHECK(ring.at("throughput") == ring.at("samples_per_s"));
  CHECK(to_json(result_from_json(ring)) == ring);
  const nlohmann::json pairs = to_json(run_replicas(8, "gossip: pairs"));
  CHECK(pairs.at("replicas").at("spectral_gap").is_null());
  CHECK(to_json(result_from_json(pairs)) == pairs);
  const nlohmann::json late = to_json(run_replicas(4, "delay: 2"));
  CHECK(late.at("staleness") == nlohmann::json{{"2", 4 * late.at("steps_looked_at").get<int>()}});
  CHECK(late.contains("all_reduce"));
  CHECK(to_json(result_from_json(late)) == late);
  const nlohmann::json local = to_json(run_replicas(4, "local_steps: 3"));
  CHECK(local.at("replicas") == nlohmann::json{{"local_steps", 3}});
  CHECK(local.at("steps_looked_at") == 3);
  CHECK(to_json(result_from_json(local)) == local);
  CHECK_FALSE(to_json(run_replicas(4, "")).contains("replicas"));
}

TEST_CASE("the report names gossip, and the number of averaged steps", "[replicas]") {
  const auto text = [](const std::string& data_parallel, const std::string& more = "") {
    const Scenario s = replicas_of(4, data_parallel, more);
    return screen(s, plan(s), simulate(s), {});
  };
  const std::string gossip = text("gossip: ring");
  CHECK_THAT(gossip, Catch::Contains("gossip (ring)") && !Catch::Contains("all-reduce"));
  CHECK_THAT(gossip, Catch::Contains("spectral gap 0.6667") && !Catch::Contains("averaged over"));
  CHECK_THAT(text("delay: 1"),
             Catch::Contains("ring all-reduce") && Catch::Contains("averaged over 8 steps, after 8 that are left out"));
  const std::string random_answer = text("", "faults: {stragglers: {kind: uniform, spread: 0.1}}\n");
  CHECK_THAT(random_answer,
             Catch::Contains(" ms (95 % confidence, ") && Catch::Contains(" steps)") && Catch::Contains(" ± "));
}

TEST_CASE("steps that cut a round of local steps or of late updates are refused", "[replicas]") {
  CHECK_THAT(refusal_of(4, "local_steps: 10", {{"plan.steps", "7"}}),
             Catch::Contains("plan.steps: 7 is not a multiple of 10") && Catch::Contains("nearest: 10"));
  CHECK_THAT(refusal_of(4, "delay: 1", {{"plan.steps", "1"}}), Catch::Contains("nearest: 2"));
  CHECK(run_replicas(4, "local_steps: 5", "", {{"plan.steps", "10"}}).step_time.value ==
        near(run_replicas(4, "local_steps: 5").step_time.value));
}

TEST_CASE("late updates have their steady rate from the first counted step on", "[replicas]") {
  for (const int delay : {1, 2, 3})
    for (const char* rate : {"8 Gbit/s", "0.4 Gbit/s"}) {
      CAPTURE(delay, rate);
      const auto time = [&](int steps) {
        return run_replicas(4, fmt::format("delay: {}, overlap: false", delay), "",
                            {{"plan.steps", std::to_string(steps)}, {"cluster.node.hca.rate", rate}})
            .step_time.value;
      };
      CHECK(time(delay + 1) == near(time(20 * (delay + 1))));
    }
}

TEST_CASE("with a staleness bound all workers run at the slowest one's rate, whatever the bound", "[servers]") {
  const std::string slow = "faults: {stragglers: {kind: one-slow, rank: 0, factor: 4}}\n";
  const auto rate = [&slow](int staleness, int steps) {
    Overrides overrides;
    if (steps > 0) overrides.emplace_back("plan.steps", std::to_string(steps));
    return run_replicas(5,
                        fmt::format("mechanism: parameter-server, servers: {{label: 4W1PS, place: dedicated}}, "
                                    "consistency: stale, staleness: {}",
                                    staleness),
                        slow, overrides);
  };
  for (const int staleness : {1, 3, 10, 30}) {
    CAPTURE(staleness);
    const Result by_default = rate(staleness, 0);
    CHECK(by_default.steps >= 10);
    CHECK(by_default.warm_steps >= 1 + 5 * staleness);
    CHECK(by_default.samples_per_s == near(rate(staleness, 400).samples_per_s));
    CHECK(by_default.samples_per_s == near(rate(1, 400).samples_per_s));
    CHECK(by_default.step_time.value > 0.4);
  }
}

TEST_CASE("the number of steps before the steady state is limited, and the report says so", "[servers]") {
  const std::string plan = "mechanism: parameter-server, servers: {count: 1}, consistency: stale, staleness: 1000000";
  const Scenario s = replicas_of(4, plan);
  const Plan step_plan = trainyard::plan(s);
  CHECK(step_plan.warm_steps > 1000);
  CHECK(step_plan.warm_steps < 1e6);
  CHECK_THAT(steps_in_words(s, step_plan, Result{}),
             Catch::Contains("(5000001 would be sure to reach the staleness bound)"));
  CHECK_THAT(refusal_of(4, "mechanism: parameter-server, consistency: asynchronous", {{"plan.steps", "2"}}),
             Catch::Contains("at least 4"));
}

TEST_CASE("asynchronous workers have the same rate in few and in many counted steps", "[servers]") {
  const auto rate = [](int steps) {
    return run_replicas(
               4, "mechanism: parameter-server, servers: {label: 3W1PS, place: dedicated}, consistency: asynchronous",
               "faults: {stragglers: {kind: one-slow, rank: 0, factor: 3}}\n", {{"plan.steps", std::to_string(steps)}})
        .samples_per_s;
  };
  CHECK(rate(20) == Approx(rate(1000)).epsilon(0.01));
}

TEST_CASE("with random stragglers many steps are simulated, but only few of a large cluster", "[servers]") {
  const std::string random_stragglers = "faults: {stragglers: {kind: lognormal, sigma: 0.1, seed: 7}}\n";
  const Overrides fast{{"cluster.node.hca.rate", "8000 Gbit/s"}, {"model.mlp.widths", "[10, 10]"}};
  const Result without_stragglers = run_replicas(8, "", "", fast),
               with_stragglers = run_replicas(8, "", random_stragglers, fast);
  CHECK(without_stragglers.steps == 1);
  CHECK_FALSE(without_stragglers.step_time_interval);
  CHECK(with_stragglers.steps >= 50);
  CHECK(*with_stragglers.step_time_interval <= 0.01 * with_stragglers.step_time);
  Overrides many = fast;
  many.emplace_back("plan.steps", "4000");
  CHECK(with_stragglers.step_time.value > 1.1 * without_stragglers.step_time.value);
  CHECK(with_stragglers.step_time.value ==
        Approx(run_replicas(8, "", random_stragglers, many).step_time.value).epsilon(0.01));
  CHECK(run_replicas(8, "", random_stragglers, {{"plan.steps", "3"}}).steps == 3);
  CHECK(run_replicas(8, "local_steps: 7", random_stragglers).steps % 7 == 0);
  const Scenario large = replicas_of(256, "all_reduce: ring", random_stragglers);
  CHECK(plan(large).training.steps < 20);
  CHECK(estimated_operations(plan(large)) <= 4e5);
}

TEST_CASE("with periodic stragglers whole periods are counted", "[servers]") {
  const auto time = [](const std::string& straggler) {
    return run_replicas(2, "", straggler.empty() ? "" : fmt::format("faults: {{stragglers: {}}}\n", straggler))
        .step_time.value;
  };
  const double busy = time("{kind: one-slow, rank: 1, factor: 2}");
  CHECK(time("{kind: periodic, period: 5, busy: 1, factor: 2, ranks: [1]}") == near((4 * time("") + busy) / 5));
  // A stated number of steps is rounded up to whole periods.
  for (const auto& [stated, counted] : {std::pair{"3", 5}, {"5", 5}, {"13", 15}}) {
    const Result r =
        run_replicas(2, "", "faults: {stragglers: {kind: periodic, period: 5, busy: 1, factor: 2, ranks: [1]}}\n",
                     {{"plan.steps", stated}});
    CHECK(r.steps == counted);
    CHECK(r.step_time.value == near((4 * time("") + busy) / 5));
  }
  // A period is counted whole where few drawn steps would be simulated, too.
  const Scenario large =
      replicas_of(256, "all_reduce: ring", "faults: {stragglers: {kind: periodic, period: 30, busy: 3, factor: 2}}\n");
  CHECK(plan(large).training.steps == 30);
  CHECK_THROWS_WITH(plan(replicas_of(256, "all_reduce: ring",
                                     "faults: {stragglers: {kind: periodic, period: 100000, "
                                     "busy: 3, factor: 2}}\n")),
                    Catch::Matchers::Contains("stragglers repeat every 100000 steps"));
}

namespace {

/// Returns draw `index` of the uniform distribution over (0, 1).
double uniform_of(std::uint64_t seed, std::uint64_t index) {
  return (static_cast<double>(hash_numbers({seed, index, 0, 0}) >> 11) + 0.5) * 0x1p-53;
}

/// Returns the expected maximum of `n` draws with this distribution function between `lower` and `upper`: `lower` and
/// the integral of 1 - F^n.
template <class Distribution>
double expected_maximum(int n, double lower, double upper, Distribution distribution) {
  constexpr int pieces = 20000;
  double sum = 0;
  for (int i = 0; i < pieces; ++i) sum += 1 - std::pow(distribution(lower + (i + 0.5) * (upper - lower) / pieces), n);
  return lower + sum * (upper - lower) / pieces;
}

/// A network that takes no time, and many layers. The update, for which nobody waits, is then one of many kernels.
const Overrides kInstantNetwork{{"cluster.node.hca.rate", "80000 Gbit/s"},
                                {"model.mlp.widths", "[10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10]"}};

constexpr const char* kAsynchronousServers =
    "mechanism: parameter-server, servers: {place: dedicated, count: 1}, consistency: asynchronous";

}  // namespace

TEST_CASE("the mean time in a queue that begins empty lies within its interval", "[steady]") {
  // M/D/1 with load 0.5: waiting takes load / (2 (1 - load)) of a service (Pollaczek 1930, Khinchine 1932).
  StepSearch search;
  search.batch = 5;
  search.fewest = 200;
  int in_interval = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SteadyState queue(search, 400000);
    double wait = 0, sum = 0;
    std::vector<double> all;
    for (std::uint64_t i = 0;; ++i) {
      all.push_back(1 + wait);
      if (queue.add(1 + wait)) break;
      wait = std::max(0.0, wait + 1 + 2 * std::log(uniform_of(seed, i)));
    }
    for (std::size_t i = position(queue.warm()); i < all.size(); ++i) sum += all[i];
    const double mean = sum / queue.steps();
    CHECK(queue.half_width() <= 0.01 * mean);
    CHECK(mean == Approx(1.5).epsilon(0.04));
    in_interval += std::abs(mean - 1.5) <= queue.half_width() ? 1 : 0;
  }
  CHECK(in_interval >= 16);
}

TEST_CASE("a warm-up is cut off, and no step if all steps are alike", "[steady]") {
  std::vector<double> steps(100, 2.0);
  CHECK(warm_up(steps, 5) == 0);
  CHECK(half_width(steps) == 0);
  for (std::size_t i = 0; i < 12; ++i) steps[i] = 3 - 0.05 * static_cast<double>(i);
  CHECK(warm_up(steps, 5) == 15);
  CHECK(warm_up(steps, 1) == 12);
  CHECK(warm_up(std::vector<double>(40, 1.0), 5) == 0);  // eight batches are too few to find a warm-up
  for (double& step : steps) step = 1 + 0.01 * static_cast<double>(&step - steps.data());
  CHECK(warm_up(steps, 5) > 50);  // this warm-up ends beyond the middle
  // Twelve values in turns of four: whole turns are alike, and their mean is known.
  const std::vector<double> turns{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
  CHECK(half_width(turns, 4) == 0);
  CHECK(half_width(std::vector<double>{1, 2}) == near(12.7062047364 * std::sqrt(0.5 / 2)));
  CHECK(half_width(std::vector<double>{1, 2, 3}) == near(4.3026527299 * std::sqrt(1.0 / 3)));
  CHECK(half_width(std::vector<double>{1, 2, 1, 2, 1, 2, 1, 2, 1, 2}) ==
        Approx(2.262157 * std::sqrt(2.5 / 9 / 10)).epsilon(1e-3));
  CHECK(half_width(std::vector<double>{1}) == HUGE_VAL);
}

TEST_CASE("of many equal steps only a thousand are simulated, of unlike steps all", "[steady]") {
  const auto scenario = [](int steps, const std::string& more) {
    return read_scenario_text(
        "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 1}\n"
        "plan: {micro_batch_size: 1, seq_length: 64, idle_devices: allowed, data_parallel: 1}\n" +
            more,
        "steps.yaml", {{"plan.steps", fmt::format("{}", steps)}});
  };
  const SimulateOptions options{.critical_path = false};
  const Result few = simulate(scenario(100, ""), options);
  for (const int steps : {1, 100, 1000, 1001, 65536, 1 << 20}) {
    CAPTURE(steps);
    CHECK(plan(scenario(steps, "")).training.steps == std::min(steps, 1000));
    if (steps < 1000) continue;
    const Result many = simulate(scenario(steps, ""), options);
    CHECK(many.step_time.value == Approx(few.step_time.value).epsilon(1e-3));
    CHECK(many.operations < 11 * few.operations);
  }
  const std::string straggler = "faults: {stragglers: [{kind: periodic, period: 3, busy: 1, factor: 2, ranks: [0]}]}\n";
  CHECK(plan(scenario(3000, straggler)).training.steps == 3000);
}

TEST_CASE("synchronous replicas wait for the slowest draw: its expectation is within the interval", "[steady]") {
  struct Case {
    const char* straggler;
    double slowest;
  };
  const auto lognormal = [](double x) { return 0.5 * std::erfc(-(std::log(x) / 0.1 + 0.05) / std::sqrt(2.0)); };
  const Case cases[] = {{"kind: exponential-tail, mean: 0.1", 1 + 0.1 * (1 + 1 / 2.0 + 1 / 3.0 + 1 / 4.0)},
                        {"kind: lognormal, sigma: 0.1", expected_maximum(4, 1e-9, 3, lognormal)}};
  for (const Case& c : cases) {
    CAPTURE(c.straggler, c.slowest);
    int in_interval = 0;
    for (int seed = 1; seed <= 8; ++seed) {
      const Result r = run_replicas(4, "", fmt::format("faults: {{stragglers: {{{}, seed: {}}}}}\n", c.straggler, seed),
                                    kInstantNetwork);
      CHECK(*r.step_time_interval <= 0.01 * r.step_time);
      CHECK(r.step_time.value == Approx(0.1 * c.slowest).epsilon(0.02));
      in_interval += std::abs(r.step_time.value - 0.1 * c.slowest) <= r.step_time_interval->value ? 1 : 0;
    }
    CHECK(in_interval >= 7);
  }
}

TEST_CASE("asynchronous workers wait for nobody's draw: each goes at the mean", "[steady][servers]") {
  const double undisturbed = run_replicas(5, kAsynchronousServers, "", kInstantNetwork).step_time.value;
  int in_interval = 0;
  for (int seed = 1; seed <= 8; ++seed) {
    const Result r =
        run_replicas(5, kAsynchronousServers,
                     fmt::format("faults: {{stragglers: {{kind: exponential-tail, mean: 0.5, seed: {}}}}}\n", seed),
                     kInstantNetwork);
    CHECK(r.step_time.value == Approx(1.5 * undisturbed).epsilon(0.02));
    in_interval += std::abs(r.step_time.value - 1.5 * undisturbed) <= r.step_time_interval->value ? 1 : 0;
  }
  CHECK(in_interval >= 7);
}

TEST_CASE("a cold start does not count: few and many asynchronous steps agree", "[steady][servers]") {
  // All workers begin at once, and their first pushes meet at the server.
  const std::string random_stragglers = "faults: {stragglers: {kind: uniform, spread: 0.3}}\n";
  std::vector<Result> results;
  for (const int steps : {4, 20, 100}) {
    results.push_back(
        run_replicas(9, kAsynchronousServers, random_stragglers, {{"plan.steps", std::to_string(steps)}}));
    CHECK(results.back().steps == steps);
    CHECK(results.back().warm_steps > 0);
    CHECK(results.back().step_time_interval.has_value());
  }
  results.push_back(run_replicas(9, kAsynchronousServers, random_stragglers));
  CHECK(*results.back().step_time_interval <= 0.01 * results.back().step_time);
  for (const Result& a : results)
    for (const Result& b : results) {
      CHECK(std::abs(a.step_time.value - b.step_time.value) <= (*a.step_time_interval + *b.step_time_interval).value);
      CHECK(a.step_time.value == Approx(b.step_time.value).epsilon(0.05));
    }
}

TEST_CASE("the answer has the interval as text and as JSON, and names a limit of steps that was reached", "[steady]") {
  const std::string random_stragglers = "faults: {stragglers: {kind: lognormal, sigma: 0.1}}\n";
  const Scenario s = replicas_of(4, "", random_stragglers, {{"plan.steps", "30"}});
  const Result r = simulate(s);
  CHECK(r.steps == 30);
  CHECK_THAT(screen(s, plan(s), r, {}), Catch::Contains(" ms (95 % confidence, 30 steps)\n"));
  const nlohmann::json j = to_json(r);
  CHECK(j.at("step_time_ci95_s") == r.step_time_interval->value);
  CHECK(to_json(result_from_json(j)) == j);
  const Scenario large = replicas_of(64, "all_reduce: ring", random_stragglers);
  Plan six_steps = plan(large);
  six_steps.training.steps = 6;
  const Result limited = simulate(large, six_steps);
  CHECK(limited.steps == 6);
  CHECK_THAT(steps_in_words(large, six_steps, limited),
             Catch::Contains("1 % is not reached") && Catch::Contains("plan.steps"));
  const Scenario one_step_scenario = replicas_of(4, "", random_stragglers, {{"plan.steps", "1"}});
  const Result one_step = simulate(one_step_scenario);
  CHECK_FALSE(one_step.step_time_interval);
  CHECK_THAT(screen(one_step_scenario, plan(one_step_scenario), one_step, {}), Catch::Contains("one draw, no mean"));
}

TEST_CASE("a simulation on given steps counts the very same steps", "[steady][servers]") {
  const std::string random_stragglers = "faults: {stragglers: {kind: lognormal, sigma: 0.1}}\n";
  for (const char* data_parallel : {"", kAsynchronousServers}) {
    CAPTURE(data_parallel);
    const Scenario s = replicas_of(5, data_parallel, random_stragglers);
    const Plan step_plan = plan(s);
    const Result r = simulate(s, step_plan), again = simulate(s, on_steps(step_plan, r.warm_steps, r.steps));
    CHECK(again.steps == r.steps);
    CHECK(again.warm_steps == r.warm_steps);
    CHECK(again.step_time.value == r.step_time.value);
    CHECK(again.breakdown.compute.value == r.breakdown.compute.value);
  }
}

TEST_CASE("both transports find the same steps", "[steady][servers]") {
  const std::string random_stragglers = "faults: {stragglers: {kind: lognormal, sigma: 0.1}}\n";
  for (const char* data_parallel : {"", kAsynchronousServers}) {
    const Scenario s = replicas_of(4, data_parallel, random_stragglers, {{"plan.steps", "12"}});
    const Result a = simulate(s), b = simulate(s, {.transport = TransportKind::native});
    CHECK(a.step_time.value == near(b.step_time.value));
    CHECK(a.warm_steps == b.warm_steps);
    CHECK(a.staleness == b.staleness);
  }
}

}  // namespace scenarios_test_steady_state
