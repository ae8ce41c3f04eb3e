// Gossip, late updates, local steps, workers out of step, stragglers: what is answered is the rate that lasts.
#include <fmt/format.h>

#include <cmath>

#include "scenarios/planning/plan.hpp"
#include "scenarios/planning/size.hpp"
#include "scenarios/planning/step_counts.hpp"
#include "scenarios/running/simulate.hpp"
#include "tests/support.hpp"
#include "tools/reports/report.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Nodes of one GPU, each on a wire to one switch; 100 ms of computing a step.
Scenario replicas_of(int nodes, const std::string& data_parallel, const std::string& more = "",
                     const Overrides& overrides = {}) {
  return read_scenario_text(
      fmt::format("cluster: {{nodes: {}, node: {{base: pcie-1, gpu: {{type: p100-pcie-16gb}}, hca: {{count: 1, rate: 8 "
                  "Gbit/s, latency: 0 us}}}}, fabric: nonblocking}}\n"
                  "model: {{mlp: {{widths: [1000, 1000, 1000]}}}}\n"
                  "plan: {{micro_batch_size: 2048, precision: fp32, optimizer: sgd, collectives: messages, "
                  "measured_step: {{source: me, "
                  "network: mlp, "
                  "table: {{2048: 100 ms}}}}, data_parallel: {{{}}}}}\n"
                  "{}",
                  nodes, data_parallel, more),
      "replicas.yaml", overrides);
}

Result run_replicas(int nodes, const std::string& data_parallel, const std::string& more = "",
                    const Overrides& overrides = {}) {
  SimulateOptions options;
  options.critical_path = false;
  return simulate(replicas_of(nodes, data_parallel, more, overrides), options);
}

std::string refusal_of(int nodes, const std::string& data_parallel, const Overrides& overrides = {}) {
  try {
    plan(replicas_of(nodes, data_parallel, "", overrides));
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

constexpr double kWeights = 4 * (2e6 + 2000);  // bytes

}  // namespace

TEST_CASE("gossip takes as long as the neighbours' parameters on one wire, on any graph", "[replicas]") {
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
    const double slow = run_replicas(c.nodes, plan).step_time,
                 fast = run_replicas(c.nodes, plan, "", {{"cluster.node.hca.rate", "16 Gbit/s"}}).step_time;
    CHECK(slow - fast == near(c.degree * kWeights * (1 / 1e9 - 1 / 2e9)));
    CHECK(slow > 0.1 + c.degree * kWeights / 1e9);
  }
}

TEST_CASE("more neighbours than a rank has streams share them", "[replicas]") {
  std::string edges;
  for (int leaf = 1; leaf <= 70; ++leaf) edges += fmt::format("{}[0, {}]", leaf > 1 ? ", " : "", leaf);
  const std::string plan = fmt::format("gossip: {{edges: [{}]}}", edges);
  const double slow = run_replicas(71, plan).step_time,
               fast = run_replicas(71, plan, "", {{"cluster.node.hca.rate", "16 Gbit/s"}}).step_time;
  CHECK(slow - fast == near(70 * kWeights * (1 / 1e9 - 1 / 2e9)));
}

TEST_CASE("edges of gossip that are there twice are refused", "[replicas]") {
  CHECK_THAT(refusal_of(3, "gossip: {edges: [[0, 1], [1, 2], [1, 0]]}"),
             Catch::StartsWith("replicas.yaml:3") && Catch::Contains("edge 1 - 0 is there twice"));
}

TEST_CASE("replicas out of step say so in the result, and no all-reduce where there is none", "[replicas]") {
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

TEST_CASE("the headline names gossip, and steps that are looked at are counted in words", "[replicas]") {
  const auto text = [](const std::string& data_parallel, const std::string& more = "") {
    const Scenario s = replicas_of(4, data_parallel, more);
    return screen(s, plan(s), simulate(s), {});
  };
  const std::string gossip = text("gossip: ring");
  CHECK_THAT(gossip, Catch::Contains("gossip (ring)") && !Catch::Contains("all-reduce"));
  CHECK_THAT(gossip, Catch::Contains("spectral gap 0.6667") && !Catch::Contains("looked at"));
  CHECK_THAT(text("delay: 1"), Catch::Contains("ring all-reduce") && Catch::Contains("8 looked at, after 8 before"));
  CHECK_THAT(text("", "faults: {stragglers: {kind: uniform, spread: 0.1}}\n"),
             Catch::Contains("200 looked at, each with draws of its own"));
}

TEST_CASE("steps that cut a round of local steps or of late updates are refused", "[replicas]") {
  CHECK_THAT(refusal_of(4, "local_steps: 10", {{"plan.steps", "7"}}),
             Catch::Contains("plan.steps: 7 is not a multiple of 10") && Catch::Contains("nearest: 10"));
  CHECK_THAT(refusal_of(4, "delay: 1", {{"plan.steps", "1"}}), Catch::Contains("nearest: 2"));
  CHECK(run_replicas(4, "local_steps: 5", "", {{"plan.steps", "10"}}).step_time ==
        near(run_replicas(4, "local_steps: 5").step_time));
}

TEST_CASE("late updates have their steady rate from the first step that is looked at", "[replicas]") {
  for (const int delay : {1, 2, 3})
    for (const char* rate : {"8 Gbit/s", "0.4 Gbit/s"}) {
      CAPTURE(delay, rate);
      const auto time = [&](int steps) {
        return run_replicas(4, fmt::format("delay: {}, overlap: false", delay), "",
                            {{"plan.steps", std::to_string(steps)}, {"cluster.node.hca.rate", rate}})
            .step_time;
      };
      CHECK(time(delay + 1) == near(time(20 * (delay + 1))));
    }
}

TEST_CASE("a staleness bound leaves all workers the slowest one's rate, whatever the bound", "[servers]") {
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
    CHECK(by_default.steps == 20);
    CHECK(by_default.warm_steps == 1 + 5 * staleness);
    CHECK(by_default.samples_per_s == near(rate(staleness, 400).samples_per_s));
    CHECK(by_default.samples_per_s == near(rate(1, 400).samples_per_s));
    CHECK(by_default.step_time > 0.4);
  }
}

TEST_CASE("steps before the steady state are no more than can be afforded, and the text says so", "[servers]") {
  const std::string plan = "mechanism: parameter-server, servers: {count: 1}, consistency: stale, staleness: 1000000";
  const Scenario s = replicas_of(4, plan);
  const Plan laid_out = trainyard::plan(s);
  CHECK(laid_out.warm_steps > 1000);
  CHECK(laid_out.warm_steps < 1e6);
  CHECK_THAT(steps_in_words(s, laid_out), Catch::Contains("(5000001 would be sure to reach the staleness bound)"));
  CHECK_THAT(refusal_of(4, "mechanism: parameter-server, consistency: asynchronous", {{"plan.steps", "2"}}),
             Catch::Contains("at least 4"));
}

TEST_CASE("asynchronous workers have the same rate whether few or many steps are looked at", "[servers]") {
  const auto rate = [](int steps) {
    return run_replicas(4,
                        "mechanism: parameter-server, servers: {label: 3W1PS, place: dedicated}, consistency: "
                        "asynchronous",
                        "faults: {stragglers: {kind: one-slow, rank: 0, factor: 3}}\n",
                        {{"plan.steps", std::to_string(steps)}})
        .samples_per_s;
  };
  CHECK(rate(20) == Approx(rate(1000)).epsilon(0.01));
}

TEST_CASE("stragglers that are drawn are looked at for many steps, as many as can be afforded", "[servers]") {
  const std::string drawn = "faults: {stragglers: {kind: lognormal, sigma: 0.1, seed: 7}}\n";
  const Overrides fast{{"cluster.node.hca.rate", "8000 Gbit/s"}, {"model.mlp.widths", "[10, 10]"}};
  const Result even = run_replicas(8, "", "", fast), uneven = run_replicas(8, "", drawn, fast);
  CHECK(even.steps == 1);
  CHECK(uneven.steps == 200);
  Overrides many = fast;
  many.emplace_back("plan.steps", "4000");
  CHECK(uneven.step_time > 1.1 * even.step_time);
  CHECK(uneven.step_time == Approx(run_replicas(8, "", drawn, many).step_time).epsilon(0.01));
  CHECK(run_replicas(8, "", drawn, {{"plan.steps", "3"}}).steps == 3);
  CHECK(run_replicas(8, "local_steps: 7", drawn).steps == 203);
  const Scenario large = replicas_of(256, "all_reduce: ring", drawn);
  CHECK(plan(large).training.steps < 20);
  CHECK(estimated_operations(large, plan(large)) <= 4e5);
}

TEST_CASE("stragglers that come and go are looked at for whole periods", "[servers]") {
  const auto time = [](const std::string& straggler) {
    return run_replicas(2, "", straggler.empty() ? "" : fmt::format("faults: {{stragglers: {}}}\n", straggler))
        .step_time;
  };
  const double busy = time("{kind: one-slow, rank: 1, factor: 2}");
  CHECK(time("{kind: periodic, period: 5, busy: 1, factor: 2, ranks: [1]}") == near((4 * time("") + busy) / 5));
}
