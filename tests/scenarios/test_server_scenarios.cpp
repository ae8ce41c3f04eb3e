// Scenarios with parameter servers, stragglers and slow links: their known answers, and refusals with their places.
#include <fmt/format.h>

#include "scenarios/src/running/simulate.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/values/training_values.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/strategies/small_task.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_server_scenarios {

using namespace trainyard;
using namespace trainyard::test;

namespace {

std::string text_of(const std::string& data_parallel, const std::string& more = "", int nodes = 3) {
  return fmt::format(
      "cluster: {{nodes: {}, node: {{base: pcie-2, cpu: xeon-e5-2698-v4, hca: {{count: 1, rate: 10 Gbit/s, latency: 1 "
      "us}}}}, fabric: nonblocking}}\n"
      "model: {{mlp: {{widths: [512, 1024, 1024, 10]}}}}\n"
      "plan: {{idle_devices: allowed, micro_batch_size: 64, precision: fp32, optimizer: sgd, data_parallel: "
      "{{mechanism: parameter-server{}}}}}\n"
      "{}",
      nodes, data_parallel.empty() ? "" : ", " + data_parallel, more);
}

Scenario scenario_of(const std::string& data_parallel, const std::string& more = "", int nodes = 3) {
  return read_scenario_text(text_of(data_parallel, more, nodes), "servers.yaml");
}

std::string refusal(const std::string& data_parallel, const std::string& more = "") {
  return user_error([&] { simulate(scenario_of(data_parallel, more)); });
}

/// Trains three steps on numbers with the servers of the scenario, and checks that they learn what one device learns.
void check_placed(const std::string& data_parallel, int workers, std::size_t servers) {
  CAPTURE(data_parallel);
  constexpr int batch = 840, steps = 3;
  Scenario s = read_scenario_text(fmt::format("cluster: {{nodes: 3, node: {{base: pcie-2, cpu: xeon-e5-2698-v4, hca: "
                                              "{{count: 1, rate: 10 Gbit/s, latency: 1 us}}}}, fabric: nonblocking}}\n"
                                              "model: {{mlp: {{widths: [5, 7, 3, 2]}}}}\n"
                                              "plan: {{idle_devices: allowed, micro_batch_size: {}, precision: fp32, "
                                              "optimizer: sgd, data_parallel: {{mechanism: parameter-server, {}}}}}\n",
                                              batch / workers, data_parallel),
                                  "servers.yaml");
  s.plan.steps = steps;
  Plan step_plan = trainyard::plan(s);
  step_plan.training.values = true;
  ClusterMachine cluster(s.cluster, s.software);
  const Mechanism& mechanism = *s.plan.mechanism;
  PlacedMachine machine(cluster, mechanism.actors(step_plan.training, cluster));
  Names names;
  const TrainingStates states{s.precision, s.optimizer, s.software};
  const auto run = mechanism.run({step_plan.training, cluster, states, names});
  const TrainingTask task = small_task(batch / workers, batch * steps);
  Values values;
  TrainingValues training(task, run->plan(), values);
  run->add_values(training);
  run_programs(machine, run->programs(), {.observers = {&values}});
  const Eigen::VectorXd learned = training.parameters(training.learner()).all_parameters();
  CHECK(largest_difference(train_plainly(task, batch, steps), learned) <= 1e-12);
  CHECK(mechanism.actors(step_plan.training, cluster).size() == static_cast<std::size_t>(s.ranks()) + servers);
  CHECK(values.hazards().empty());
}

}  // namespace

TEST_CASE("servers learn what one device learns, with every placement", "[servers][values]") {
  for (const std::string place : {"colocated", "dedicated"})
    for (const std::string keys : {"tensors", "layers", "buckets"}) {
      const int workers = place == "dedicated" ? 4 : 6;
      const auto servers_on = [&](const char* device) {
        return fmt::format("servers: {{count: 1, on: {}, place: {}, keys: {}}}", device, place, keys);
      };
      check_placed(servers_on("cpu"), workers, 1);
      check_placed(servers_on("gpu"), workers, 1);
      // Two servers need more keys than the single bucket.
      if (keys != "buckets") check_placed(servers_on("gpus"), workers, 2);
    }
  check_placed("servers: {count: 3, on: cpu, keys: layers}", 6, 3);
}

TEST_CASE("the place of the servers decides the number of workers", "[servers]") {
  CHECK(scenario_of("").ranks() == 6);
  CHECK(scenario_of("servers: {count: 1, place: dedicated}").ranks() == 4);
  CHECK(scenario_of("servers: {label: 2W2PS, place: dedicated}").ranks() == 2);
  CHECK(scenario_of("servers: 4W1PS").ranks() == 4);
  const Result r = simulate(scenario_of("servers: {count: 1, on: gpus, place: dedicated}"));
  CHECK(figure<std::int64_t>(r.servers, "servers") == 2);  // a node's two GPUs share the keys
  CHECK(figure<std::int64_t>(r.servers, "workers") == 4);
}

TEST_CASE("a server on a worker's GPU holds its weights and sums there", "[servers]") {
  const Scenario s = scenario_of("servers: {count: 1, on: gpu}");
  const Result on_gpu = simulate(s), on_cpu = simulate(scenario_of("servers: {count: 1, on: cpu}"));
  CHECK(on_gpu.memory.rank == 0);
  CHECK(on_gpu.memory.peak.value - on_cpu.memory.peak.value == near(2 * 4 * s.network.parameters()));
  CHECK(on_gpu.memory.gradients.value - on_cpu.memory.gradients.value == near(4 * s.network.parameters()));
  // On a node of its own, a server takes no memory of workers.
  CHECK(simulate(scenario_of("servers: {count: 1, on: gpu, place: dedicated}")).memory.peak.value ==
        near(on_cpu.memory.peak.value));
}

TEST_CASE("more servers make a step shorter, and with backup workers or asynchrony nobody waits for stragglers",
          "[servers]") {
  const std::string straggler = "faults: {stragglers: {kind: one-slow, rank: 1, factor: 1000}}\n";
  const auto time = [](const std::string& data_parallel, const std::string& more = "") {
    return simulate(scenario_of(data_parallel, more, 4));
  };
  const std::string one_server = "servers: {count: 1, place: dedicated}, size: 4",
                    two_servers = "servers: {count: 2, place: dedicated}, size: 4";
  const Result undisturbed = time(one_server);
  CHECK(time(two_servers).step_time.value < undisturbed.step_time.value);
  CHECK(figure<NumbersByName>(undisturbed.servers, "waits_s").at("pull") > 0);
  CHECK(figure<NumbersByName>(undisturbed.servers, "waits_s").at("barrier") == 0);  // all workers are alike
  CHECK(undisturbed.staleness.size() == 1);                                         // only staleness 0
  CHECK_FALSE(undisturbed.critical_path.empty());
  const Result with_straggler = time(one_server, straggler),
               with_backup = time(one_server + ", backup_workers: 1", straggler),
               asynchronous = time(one_server + ", consistency: asynchronous", straggler);
  CHECK(with_straggler.step_time.value > undisturbed.step_time.value);
  CHECK(with_backup.step_time.value < with_straggler.step_time.value);
  CHECK(figure<double>(with_backup.servers, "dropped_share") > 0);
  CHECK(asynchronous.samples_per_s > with_straggler.samples_per_s);
  CHECK(asynchronous.critical_path.empty());
  CHECK(figure<NumbersByName>(asynchronous.servers, "waits_s").contains("server"));
}

TEST_CASE("a step of synchronous servers is a steady one: that of staleness 0, whatever the number of steps",
          "[servers]") {
  for (const char* servers : {"servers: {count: 1, place: dedicated}, size: 4", "servers: {count: 2}, size: 4"}) {
    CAPTURE(servers);
    Scenario s = scenario_of(servers, "", 4);
    const double step = simulate(s).step_time.value;
    for (const int steps : {2, 5, 20}) {
      s.plan.steps = steps;
      CHECK(simulate(s).step_time.value == Approx(step).epsilon(1e-9));
    }
    CHECK(simulate(scenario_of(servers + std::string(", consistency: stale, staleness: 0"), "", 4)).step_time.value ==
          Approx(step).epsilon(0.01));
  }
}

TEST_CASE("a degraded link of a server slows its workers", "[servers]") {
  const std::string plan = "servers: {count: 1, place: dedicated}, size: 2";
  const Result full_rate = simulate(scenario_of(plan)),
               half_rate = simulate(scenario_of(plan, "faults: {links: [{link: node2/hca0 - fabric, factor: 0.5}]}\n"));
  CHECK(half_rate.step_time.value > full_rate.step_time.value);
}

TEST_CASE("a link that is slow for a time delays the step by the bytes that it does not carry then", "[faults]") {
  // Two nodes with one GPU each compute for 0.1 ms, then each sends 2 x 46 MB at 1.25 GB/s.
  const auto time = [](const std::string& links) {
    return simulate(read_scenario_text("cluster: {nodes: 2, node: {base: pcie-1, hca: {count: 1, rate: 10 Gbit/s, "
                                       "latency: 1 us}}, fabric: nonblocking}\n"
                                       "model: {mlp: {widths: [512, 4096, 4096, 1024]}}\n"
                                       "plan: {micro_batch_size: 1, precision: fp32, optimizer: sgd, data_parallel: "
                                       "{all_reduce: ring, overlap: false, bucket: 1 GB}}\n" +
                                           (links.empty() ? "" : "faults: {links: [" + links + "]}\n"),
                                       "slow.yaml"))
        .step_time.value;
  };
  const std::string link = "{link: node1/hca0 - fabric, ";
  const double full_rate = time(""), half_rate = time(link + "factor: 0.5}");
  REQUIRE(full_rate > 0.06);
  CHECK(half_rate > 1.5 * full_rate);
  // Each interval lies within one message: between two messages nothing is on the link.
  CHECK(time(link + "factor: 0.5, from: 50 ms, to: 51 ms}") == near(full_rate + 0.0005));
  CHECK(time(link + "factor: 0.25, from: 20 ms, to: 24 ms}") == near(full_rate + 0.003));
  CHECK(time(link + "factor: 0, from: 20 ms, to: 24 ms}") == near(full_rate + 0.004));
  CHECK(time(link + "factor: 0.5, from: 16 ms, to: 18 ms}, " + link + "factor: 0, from: 20 ms, to: 21 ms}") ==
        near(full_rate + 0.002));
  // A slow-down that outlasts the exchange is like a permanent one, and one that ends before it has no effect.
  CHECK(time(link + "factor: 0.5, to: 10 s}") == half_rate);
  CHECK(time(link + "factor: 0.5, to: 10 us}") == full_rate);
  CHECK_THROWS_WITH(time(link + "factor: 0.5, from: 2 ms, to: 1 ms}"), Catch::Contains("faults.links.to"));
  CHECK_THROWS_WITH(time(link + "factor: 0}"), Catch::Contains("faults.links.factor"));
}

TEST_CASE("results of servers survive JSON", "[servers]") {
  const Result r = simulate(scenario_of("servers: 2, consistency: stale, staleness: 1"));
  const nlohmann::json j = to_json(r);
  CHECK(j.at("throughput") == r.samples_per_s);
  CHECK(j.at("waits_s").contains("staleness bound"));
  CHECK(to_json(result_from_json(j)) == j);
}

TEST_CASE("impossible servers, stragglers and links are refused with their place", "[servers]") {
  CHECK_THAT(refusal("servers: 0"), Catch::Contains("servers.yaml:3") && Catch::Contains("plan.data_parallel.servers"));
  CHECK_THAT(refusal("servers: 8W2PS"), Catch::Contains("8 ranks"));
  CHECK_THAT(refusal("servers: 4W1PS, size: 2"), Catch::Contains("the label says 4 workers"));
  CHECK_THAT(refusal("servers: {count: 9, nodes: [0]}"), Catch::Contains("too few for its servers"));
  CHECK_THAT(refusal("servers: {count: 3, on: gpus, keys: layers, nodes: [0, 1, 2]}"),
             Catch::Contains("at most as many servers as keys"));
  CHECK_THAT(refusal("servers: {count: 1, place: dedicated, nodes: [1]}, size: 4"), Catch::Contains("to be dedicated"));
  CHECK_THAT(refusal("consistency: stale"), Catch::Contains("staleness"));
  CHECK_THAT(refusal("consistency: stale, staleness: -1"), Catch::Contains("staleness"));
  CHECK_THAT(refusal("staleness: 1"), Catch::Contains("with consistency stale only"));
  CHECK_THAT(refusal("backup_workers: 6"), Catch::Contains("at most 5"));
  CHECK_THAT(refusal("consistency: asynchronous, worker_weights: [0.5]"), Catch::Contains("1 number for 6 workers"));
  CHECK_THAT(refusal("consistency: asynchronous, worker_weights: [2]"), Catch::Contains("at most 1, expected"));
  CHECK_THAT(refusal("mixing_shares: [0.5]"), Catch::Contains("stale or asynchronous only"));
  CHECK_THAT(refusal("worker_weights: [0.5]"), Catch::Contains("stale or asynchronous only"));
  CHECK_THAT(refusal("", "faults: {stragglers: {kind: one-slow, rank: 6, factor: 2}}\n"),
             Catch::Contains("ranks 0 to 5"));
  CHECK_THAT(refusal("", "faults: {stragglers: {kind: lognormal}}\n"), Catch::Contains("sigma"));
  CHECK_THAT(refusal("", "faults: {links: [{link: nowhere, factor: 0.5}]}\n"), Catch::Contains("unknown link"));
  CHECK_THAT(refusal("", "faults: {link: 1}\n"), Catch::Contains("faults"));
}

TEST_CASE("lists that are no lists, and figures without effect, are refused", "[servers]") {
  const auto wants_list = [](const char* key) { return Catch::Contains(std::string(key) + ": expected a list"); };
  CHECK_THAT(refusal("consistency: asynchronous, worker_weights: 0.5"), wants_list("worker_weights"));
  CHECK_THAT(refusal("", "faults: {stragglers: {kind: constant, factor: 2, ranks: 3}}\n"), wants_list("ranks"));
  CHECK_THAT(refusal("", "faults: {stragglers: {kind: constant, factor: 2, ranks: []}}\n"), wants_list("ranks"));
  CHECK_THAT(refusal("", "faults: {stragglers: {kind: constant, factors: {0: 2}}}\n"), wants_list("factors"));
  CHECK_THAT(refusal("consistency: stale, staleness: 9999999"), Catch::Contains("the most is 1048576"));
  const std::string link = "faults: {links: [{link: \"node1/hca0 - fabric\", factor: ";
  CHECK_THAT(refusal("", link + "2}]}\n"), Catch::Contains("faults.links.factor"));
  CHECK_THAT(refusal("", link + "0.5, from: 1 h}]}\n"), Catch::Contains("over at"));
}

}  // namespace scenarios_test_server_scenarios
