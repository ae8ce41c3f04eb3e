// `faults` of a scenario: goodput over days, checkpoints over the machine, and refusals.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "scenarios/src/studies/failures/failure_what_ifs.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_failures {

using namespace trainyard;

namespace {

/// Returns the text of a small model on two nodes, whose plan states a step time of 1 s.
std::string scenario_text(const std::string& faults, const std::string& training = "{steps: 1000}") {
  return R"({cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}, model: {base: gpt2, n_layer: 2},
    plan: {data_parallel: 16, precision: bf16, seq_length: 64, micro_batch_size: 1, global_batch_size: 16,
           step_time: 1 s, training: )" +
         training + "}, faults: " + faults + "}";
}

Result run(const std::string& faults, const std::string& training = "{steps: 1000}") {
  return simulate_training(read_scenario_text(scenario_text(faults, training), "faulty.yaml"));
}

const std::string kTimes = "write: 2 s, load: 10 s";

}  // namespace

TEST_CASE("a failure at a stated step loses the steps since the last checkpoint, and adds detection, restart and load",
          "[scenario][failures]") {
  const Result r = run("{failures: [{at: 550 steps, what: gpu 5}], checkpoint: {every: 100 steps, " + kTimes +
                       "}, restart: {detect: 20 s, restart: 30 s}}");
  REQUIRE(r.failures);
  CHECK(r.failures->end.value == Approx(1000 + 20 + 50 + 60).epsilon(1e-12));
  CHECK(r.failures->lost_work.value == Approx(50).epsilon(1e-12));
  CHECK(r.failures->goodput == Approx(1000 / 1130.0).epsilon(1e-12));
  CHECK_FALSE(run("{failures: null, checkpoint: null, restart: null}").failures);
  const nlohmann::json j = to_json(r);
  CHECK(j["lost_work_s"] == r.failures->lost_work.value);
  CHECK(j["checkpoint_interval_s"] == 100);
  CHECK(to_json(result_from_json(j)) == j);
}

TEST_CASE("workers, GPUs, adapters, switches and links fail at stated times, and the result names them",
          "[scenario][failures]") {
  const std::string faults =
      "{failures: [{at: 150 steps, what: worker 3}, {at: 260.5 s, what: gpu 9}, {at: 300 s, what: nic 12}, "
      "{at: 1050 s, what: switch SWITCH}, {at: 1100 s, what: link LINK}], checkpoint: {every: 100 steps, " +
      kTimes + "}, restart: {detect: 5 s, restart: 10 s, elastic: true}}";
  const Scenario plain = read_scenario_text(scenario_text("null"), "faulty.yaml");
  const DeviceGraph graph = build_cluster(plain.cluster);
  const std::string switch_name =
      graph.devices()[static_cast<std::size_t>(graph.devices_of_kind(DeviceKind::network_switch).front())].name;
  const std::string link_name = graph.links().front().name;
  std::string named_faults = faults;
  named_faults.replace(named_faults.find("SWITCH"), 6, switch_name);
  named_faults.replace(named_faults.find("LINK"), 4, link_name);
  const Result r = run(named_faults);
  REQUIRE(r.failures);
  const auto& failures = r.failures->set_failures;
  REQUIRE(failures.size() == 5);
  CHECK(failures[0].component == "worker 3");
  CHECK(failures[0].time.value == Approx(152).epsilon(1e-12));  // after a checkpoint of 2 s
  CHECK(failures[0].lost_steps == 50);
  CHECK(failures[1].component == "gpu 9");
  CHECK(failures[2].node_was_away);  // adapter 12 is in the node that stopped with GPU 9
  CHECK(failures[3].component == "switch " + switch_name);
  CHECK(failures[4].component == "link " + link_name);
  CHECK(r.failures->failures == 4);
  CHECK(r.failures->lost_work.value == Approx(failures[0].lost_work.value + failures[1].lost_work.value +
                                              failures[3].lost_work.value + failures[4].lost_work.value));
  const nlohmann::json j = to_json(r);
  CHECK(j["failures"]["said"][0]["component"] == "worker 3");
  CHECK(j["failures"]["said"][1]["at_s"] == 260.5);
  CHECK(to_json(result_from_json(j)) == j);
}

TEST_CASE("an elastic training that lost a node takes the step time of the other nodes", "[scenario][failures]") {
  const auto result_of = [](const std::string& nodes, const std::string& batch, const std::string& faults) {
    return simulate_training(read_scenario_text("{cluster: {nodes: " + nodes +
                                                    R"(, node: dgx-a100, fabric: nonblocking},
      model: {base: gpt2, n_layer: 2}, plan: {precision: bf16, seq_length: 64, micro_batch_size: 1,
      training: {steps: 100}, global_batch_size: )" +
                                                    batch + "}, faults: " + faults + "}",
                                                "elastic.yaml"));
  };
  const std::string faults = "{failures: [{at: 40 steps, what: node 1}], restart: {elastic: true}}";
  const double time_on_two = result_of("2", "32", "null").step_time.value,
               time_on_one = result_of("1", "32", "null").step_time.value;
  const Result r = result_of("2", "32", faults);
  REQUIRE(r.failures->reduced_replicas.size() == 1);
  CHECK(r.failures->reduced_replicas[0].replicas == 8);
  CHECK(r.failures->reduced_replicas[0].simulated);
  CHECK(r.failures->reduced_replicas[0].step_time.value == time_on_one);
  CHECK(time_on_one != Approx(2 * time_on_two).epsilon(0.01));  // a single node exchanges gradients without the network
  CHECK(r.failures->end.value == Approx(40 * time_on_two + 60 * time_on_one).epsilon(1e-9));
  CHECK(to_json(result_from_json(to_json(r))) == to_json(r));
  const Result uneven = result_of("3", "24", faults);  // 24 samples cannot be divided evenly among 16 replicas
  CHECK(uneven.failures->reduced_replicas.at(0).replicas == 16);
  CHECK(!uneven.failures->reduced_replicas[0].simulated);
  CHECK(uneven.failures->reduced_replicas[0].step_time.value == Approx(1.5 * uneven.step_time.value).epsilon(1e-12));
}

TEST_CASE("the what-ifs of rarer failures, faster restarts and cheaper checkpoints raise the goodput",
          "[scenario][failures]") {
  const Scenario s = read_scenario_text(
      scenario_text(
          "{failures: {mtbf: {node: 48 h, software: 100 h}, runs: 5}, checkpoint: {every: 10 min, write: 100 s, "
          "load: 60 s}, restart: {detect: 60 s, restart: 600 s}}",
          "{time: 30 d}"),
      "faulty.yaml");
  const Result r = simulate_training(s);
  const Seconds step{r.step_time.value};
  const std::vector<FailureWhatIf> table = failure_what_ifs(s, step, *r.failures, 2);
  REQUIRE(table.size() == 6);
  CHECK(table[0].change == "node failures 2 x rarer");
  CHECK(table[2].change == "all failures 2 x rarer");
  for (const FailureWhatIf& change : table) {
    CAPTURE(change.change);
    CHECK(change.goodput > r.failures->goodput);
    CHECK(change.effective_step_time.value < r.failures->effective_step_time().value);
  }
  CHECK(table[2].goodput > table[0].goodput);
  // A factor of 1 gives the goodput of the result.
  CHECK(failure_what_ifs(s, step, *r.failures, 1)[2].goodput == Approx(r.failures->goodput).epsilon(1e-12));
  std::vector<WhatIf> faster{{"GPU compute", 2, Seconds{0.5}}};
  add_goodput(faster, s, *r.failures);
  CHECK(faster[0].goodput == Approx(r.failures->goodput).epsilon(0.01));
  CHECK(faster[0].effective_step_time.value == Approx(0.5 / faster[0].goodput).epsilon(1e-3));
}

TEST_CASE("what-ifs whose training is over before a stated failure are named with the reason", "[scenario][failures]") {
  const Scenario s = read_scenario_text(
      scenario_text("{failures: [{at: 1200 s, what: gpu 5}], checkpoint: {every: 100 steps, write: 30 s, load: 10 s}, "
                    "restart: {detect: 1 s, restart: 1 s}}"),
      "faulty.yaml");
  const Result r = simulate_training(s);
  std::vector<WhatIf> faster{{"GPU compute", 100, Seconds{r.step_time.value / 100}}};
  add_goodput(faster, s, *r.failures);
  CHECK(faster[0].goodput == 0);
  CHECK_THAT(faster[0].goodput_refused, Catch::Contains("1200 s"));
  CHECK_THAT(what_if_table(r, faster), Catch::Contains("no goodput: " + faster[0].goodput_refused));
  const std::vector<FailureWhatIf> table = failure_what_ifs(s, r.step_time, *r.failures, 100);
  const auto refused = std::ranges::find(table, "checkpoints 100 x faster", &FailureWhatIf::change);
  REQUIRE(refused != table.end());
  CHECK(refused->goodput == 0);
  CHECK(failure_what_if_fields().json(*refused)["refused"] == refused->refused);
  const std::string text = failure_what_if_table(*r.failures, table);
  CHECK_THAT(text, Catch::Contains("checkpoints 100 x faster is not possible: " + refused->refused + "\n"));
  for (const FailureWhatIf& each : table) CHECK_THAT(text, Catch::Contains(each.change));
}

TEST_CASE("a failed parameter server loses the work since the last checkpoint", "[scenario][failures]") {
  const auto result_of = [](const std::string& what) {
    return simulate_training(
        read_scenario_text(R"({cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}, model: {base: gpt2,
      n_layer: 2}, plan: {data_parallel: {mechanism: parameter-server, servers: 2}, precision: bf16, seq_length: 64,
      micro_batch_size: 1, global_batch_size: 16, step_time: 1 s, training: {steps: 100}}, faults: {failures: )" +
                               what + "}}",
                           "faulty.yaml"));
  };
  const Result r = result_of("[{at: 30 s, what: server 1}]");
  CHECK(r.failures->end.value == Approx(130).epsilon(1e-12));
  CHECK(r.failures->set_failures.at(0).component == "server 1");
  CHECK(r.failures->set_failures.at(0).lost_work.value == Approx(30).epsilon(1e-12));
  CHECK(result_of("{mtbf: {server: 10 h, worker: 80 h}, runs: 1}").failures->time_between_failures.value ==
        Approx(3600 / (2 / 10.0 + 16 / 80.0)).epsilon(1e-12));
  CHECK_THROWS_WITH(result_of("[{at: 30 s, what: server 2}]"), Catch::Contains("server 2; there are server 0 to 1"));
}

TEST_CASE("checkpoints go over the machine to the store", "[scenario][failures]") {
  const std::string store = "{name: store, read: 2 GB/s, write: 1 GB/s, latency: 1 ms}";
  const std::string common = "checkpoint: {every: 100 steps, storage: " + store;
  const Result sharded = run("{" + common + "}}"), unsharded = run("{" + common + ", sharded: false}}"),
               asynchronous = run("{" + common + ", kind: asynchronous}}");
  const double bytes = sharded.failures->checkpoint.bytes.value;
  CHECK(bytes > 0);
  // The store is the limit. The copy to host memory takes a little more time.
  CHECK(sharded.failures->checkpoint.write.value > bytes / 1e9);
  CHECK(sharded.failures->checkpoint.write.value < bytes / 1e9 * 1.1 + 0.1);
  CHECK(sharded.failures->checkpoint.load.value < sharded.failures->checkpoint.write.value);
  CHECK(unsharded.failures->checkpoint.write.value > sharded.failures->checkpoint.write.value);
  CHECK(sharded.failures->checkpoint.stall.value == sharded.failures->checkpoint.write.value);
  CHECK(asynchronous.failures->checkpoint.stall.value < sharded.failures->checkpoint.write.value / 10);
  CHECK(asynchronous.failures->goodput > sharded.failures->goodput);
  SECTION("the drives of the nodes write in parallel") {
    const Result drives = run("{checkpoint: {every: 100 steps, storage: samsung-pm9a3}}");
    CHECK(drives.failures->checkpoint.write.value > bytes / 2 / 3.5e9);
    CHECK(drives.failures->checkpoint.write.value < bytes / 2 / 3.5e9 * 1.5 + 0.1);
  }
  SECTION("a store that is too small is refused") {
    CHECK_THROWS_WITH(
        run("{checkpoint: {every: 100 steps, storage: {read: 1 GB/s, write: 1 GB/s, latency: 1 ms, "
            "capacity: 1 MB}}}"),
        Catch::Contains("faulty.yaml:") && Catch::Contains("of a checkpoint on custom-storage, which holds"));
  }
}

TEST_CASE("all shares of a rack pass the memory of one socket", "[scenario][failures]") {
  const Result rack = simulate_training(read_scenario_text(
      R"({cluster: {node: gb200-nvl72}, model: {base: gpt2, n_layer: 2},
          plan: {data_parallel: 72, precision: bf16, seq_length: 64, micro_batch_size: 1, global_batch_size: 72,
                 step_time: 1 s, training: {steps: 1000}},
          faults: {checkpoint: {every: 100 steps, storage: {name: store, read: 2 GB/s, write: 1 GB/s, latency: 1 ms}}}})",
      "rack.yaml"));
  const auto& checkpoint = rack.failures->checkpoint;
  CHECK(checkpoint.write.value > checkpoint.bytes.value / 1e9);
  CHECK(checkpoint.write.value < checkpoint.bytes.value / 1e9 * 1.1 + 0.1);
}

TEST_CASE("the best interval is found, and reported with Young's and Daly's", "[scenario][failures]") {
  const Result r =
      run("{failures: {mtbf: {node: 48 h}, runs: 5}, checkpoint: {every: optimal, write: 300 s, load: 60 s}}",
          "{time: 30 d}");
  const auto& c = r.failures->checkpoint;
  CHECK(c.best.young.value == Approx(7200).epsilon(1e-9));
  CHECK(c.best.simulated.value == Approx(c.best.daly.value).epsilon(0.02));
  CHECK(c.interval.value == Approx(c.best.simulated.value).epsilon(1e-3));
  CHECK(c.best.range_begin < c.best.simulated);
  CHECK(c.best.range_end > c.best.simulated);
  CHECK(to_json(result_from_json(to_json(r))) == to_json(r));
  CHECK(r.failures->failures == Approx(30).epsilon(0.4));
  const std::string text = failure_lines(*r.failures);
  CHECK_THAT(text, Catch::Contains(
                       fmt::format(", one every {} on average", long_time(r.failures->end / r.failures->failures))));
  CHECK(r.failures->checkpoint.best.failures == 10000);
  CHECK_THAT(text, Catch::Contains(fmt::format("goodput {:.2f} % through about 10,000 failures of other draws",
                                               c.best.goodput * 100)));
  CHECK(r.failures->goodput_deviation > 0);
}

TEST_CASE("faults that contradict the scenario are refused with their place", "[scenario][failures]") {
  const auto check_refusal = [](const std::string& faults, const std::string& what,
                                const std::string& training = "{steps: 1000}") {
    CAPTURE(faults);
    CHECK_THROWS_WITH(run(faults, training), Catch::StartsWith("faulty.yaml:") && Catch::Contains(what));
  };
  check_refusal("{failures: [{at: 2000 s, what: gpu 5}]}", "faults.failures.0.at: 2000 s, but the training ends after");
  check_refusal("{failures: [{at: 1000 steps, what: gpu 5}]}", "but the training ends after 1000");
  check_refusal("{failures: [{at: 2 d, what: gpu 5}]}", "but the training ends after 24.0 h", "{time: 1 d}");
  check_refusal("{failures: [{at: 5 s, what: gpu 5}], checkpoint: {every: 10 h, " + kTimes + "}}",
                "faults.checkpoint.every: 10.0 h, but the training takes 16.7 min");
  check_refusal("{stragglers: {kind: lognormal, sigma: 0.1}}", "faults.stragglers: plan.step_time says");
  check_refusal("{links: [{link: x, factor: 0.5}]}", "faults.links: plan.step_time says");
  check_refusal("{failures: [{at: 5 s, what: gpu 16}]}", "gpu 16; there are gpu 0 to 15");
  check_refusal("{failures: [{at: 5 s, what: gpus 1}]}", "unknown component \"gpus\"; did you mean \"gpu\"?");
  check_refusal("{failures: [{at: 5 s, what: worker 16}]}", "worker 16; there are worker 0 to 15");
  check_refusal("{failures: [{at: 5 s, what: server 0}]}", "server 0: there is none (plan.data_parallel:");
  check_refusal("{failures: {mtbf: {server: 5 h}}}", "faults.failures.mtbf.server: there is none");
  check_refusal("{failures: [{at: 5 s, what: workr 1}]}", "unknown component \"workr\"; did you mean \"worker\"?");
  check_refusal("{failures: [{at: 5 s, what: switch nowhere}]}", "unknown switch \"nowhere\"");
  check_refusal("{failures: [{at: 5 s, what: link nowhere}]}", "unknown link \"nowhere\"");
  check_refusal("{failures: {mtbf: {}}}", "expected the mean time between failures");
  check_refusal("{failures: {mtbf: {cpu: 5 h}}}", "mtbf");
  check_refusal("{failures: {mtbf: {gpu: 0 s}}}", "faults.failures.mtbf.gpu: more than 0 expected");
  check_refusal("{checkpoint: {every: 100 steps}}", "faults.checkpoint: expected storage");
  check_refusal("{checkpoint: {every: 2000 steps, " + kTimes + "}}", "but the training has 1000");
  check_refusal("{checkpoint: {every: optimal, " + kTimes + "}}", "optimal needs random failures");
  check_refusal("{checkpoint: {virtual_epochs: 10, " + kTimes + "}}", "expected plan.training with epochs");
  check_refusal("{checkpoint: {every: 100 steps, storage: local}}", "has no drives");
  check_refusal("{restart: {detect: 5 s}}", "nothing fails");
  check_refusal("{failures: [{at: 5 s, what: node 1}], restart: {spares: 0}}", "no spare node is left");
  CHECK_THROWS_WITH(simulate_training(read_scenario_text(
                        scenario_text("{checkpoint: {every: 1 min, " + kTimes + "}}", "null"), "f.yaml")),
                    Catch::Contains("the length of the training is needed"));
}

TEST_CASE("virtual_epochs is the number of checkpoints in a pass over the data", "[scenario][failures]") {
  const Result r = run("{checkpoint: {virtual_epochs: 10, " + kTimes + "}}", "{epochs: 2, steps_per_epoch: 500}");
  CHECK(r.failures->checkpoints == 20);
}

namespace {

/// Simulates four workers of this consistency, and a server on a node of its own.
Result run_servers(const std::string& consistency, const std::string& faults) {
  return simulate_training(read_scenario_text(
      R"({cluster: {nodes: 5, node: {base: pcie-1, gpu: {type: p100-pcie-16gb}, hca: {count: 1, rate: 8 Gbit/s, latency: 1 us}},
                    fabric: nonblocking},
          model: {mlp: {widths: [1000, 1000, 1000]}},
          plan: {micro_batch_size: 2048, precision: fp32, optimizer: sgd, training: {steps: 100000},
                 measured_step: {source: me, network: mlp, table: {2048: 1 s}},
                 data_parallel: {mechanism: parameter-server, servers: {label: 4W1PS, place: dedicated}, consistency: )" +
          consistency + "}}, faults: " + faults + "}",
      "servers.yaml"));
}

}  // namespace

TEST_CASE("a worker's death does not stop asynchronous training, a server's does", "[scenario][failures][servers]") {
  const auto run = [](const std::string& consistency, const std::string& what) {
    const std::string faults = "{failures: [{at: 1000 s, what: " + what +
                               "}], restart: {detect: 100 s, restart: 500 s, repair: 3000 s, spares: 0}}";
    return *run_servers(consistency, faults).failures;
  };
  const FailureResult worker = run("asynchronous", "worker 2"), node = run("asynchronous", "node 1"),
                      server = run("asynchronous", "server 0"), server_node = run("asynchronous", "node 4"),
                      stale = run("stale, staleness: 3", "worker 2");
  CHECK(worker.down.value == 0);
  CHECK(worker.lost_work.value == 0);
  REQUIRE(worker.reduced_replicas.size() == 1);
  CHECK(worker.reduced_replicas[0].replicas == 3);
  CHECK(worker.reduced_replicas[0].simulated);
  // Each worker computes for a second in a step: three workers take 4/3 of the time of four, less their shorter waits.
  const double step_of_three = worker.reduced_replicas[0].step_time.value, step_of_four = worker.end.value / 100000;
  CHECK(step_of_three == Approx(step_of_four * 4 / 3).epsilon(0.05));
  CHECK(worker.slower.value == Approx(600 * (1 - step_of_four / step_of_three)).epsilon(0.02));
  CHECK(node.down.value == 0);
  CHECK(node.slower.value == Approx(3500 * (1 - step_of_four / step_of_three)).epsilon(0.02));
  CHECK(server.down.value == Approx(600));
  CHECK(server_node.without_node.value == Approx(3000 - 600).epsilon(0.01));
  CHECK(stale.down.value == Approx(600));
}

TEST_CASE("only an elastic training loses time to missing replicas, and the unfinished step at the end stands apart",
          "[scenario][failures]") {
  for (const char* elastic : {"false", "true"}) {
    CAPTURE(elastic);
    const Scenario s = read_scenario(
        scenario_file("gpt2-xl-ddp-dgx-a100"),
        {{"plan.training", "{time: 3 d}"},
         {"faults", std::string("{failures: {mtbf: {gpu: 2000 h}, runs: 3}, checkpoint: {every: 30 min, write: 20 s, "
                                "load: 30 s}, restart: {detect: 1 min, restart: 5 min, elastic: ") +
                        elastic + "}}"}});
    const FailureResult f = *simulate_training(s, {.critical_path = false}).failures;
    CHECK(f.unfinished.value > 0);
    CHECK((f.slower.value > 0) == (std::string(elastic) == "true"));
    CHECK((f.useful + f.lost_work + f.stalled + f.down + f.without_node + f.slower + f.unfinished).value ==
          Approx(f.end.value).epsilon(1e-6));
  }
}

TEST_CASE("the answer counts lost mini-batches and the epochs that the steps make", "[scenario][failures]") {
  const Result r = run("{failures: [{at: 550 steps, what: gpu 5}], checkpoint: {every: 100 steps, " + kTimes + "}}",
                       "{epochs: 10, samples: 1600}");
  REQUIRE(r.failures);
  CHECK(r.failures->lost_minibatches == 16 * (50 + 1));  // 50 repeated steps, and the present one
  const std::string lines = failure_lines(*r.failures);
  CHECK_THAT(lines, Catch::Matchers::Contains("50.0 s of work repeated, 816 mini-batches of workers lost"));
  CHECK_THAT(lines,
             Catch::Matchers::Contains(fmt::format("epochs     10 of the {:.4g} that training alone has in this time",
                                                   r.failures->planned_epochs)));
  CHECK(r.failures->planned_epochs > 10.5);  // 50 repeated steps, and ten checkpoints of 2 s
  CHECK_THAT(failure_lines(*run("{checkpoint: {every: 100 steps, " + kTimes + "}}").failures),
             Catch::Matchers::Contains("no work repeated\n"));
}

}  // namespace scenarios_test_failures
