// Scenarios with split keys, aggregation in nodes, server rules and copies of keys: memory, traffic, failures and
// refusals.
#include <fmt/format.h>

#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "tests/support.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_server_ways {

using namespace trainyard;
using namespace trainyard::test;

namespace {

constexpr double kParameters = 512 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10;

std::string text_of(const std::string& servers, const std::string& more = "", const std::string& optimizer = "adam",
                    const std::string& rest = "", int nodes = 4) {
  return fmt::format(
      "cluster: {{nodes: {}, node: {{base: pcie-2, cpu: xeon-e5-2698-v4, hca: {{count: 1, rate: 10 Gbit/s, latency: 1 "
      "us}}}}, fabric: nonblocking}}\n"
      "model: {{mlp: {{widths: [512, 1024, 1024, 10]}}}}\n"
      "plan: {{micro_batch_size: 64, precision: fp32, optimizer: {}, {} data_parallel: {{mechanism: parameter-server, "
      "servers: {{{}}}{}}}}}\n",
      nodes, optimizer, rest, servers, more.empty() ? "" : ", " + more);
}

Result result_of(const std::string& servers, const std::string& more = "", const std::string& optimizer = "adam") {
  return simulate(read_scenario_text(text_of(servers, more, optimizer), "servers.yaml"));
}

std::string refusal(const std::string& servers, const std::string& more = "") {
  return user_error([&] { result_of(servers, more); });
}

/// The memory and traffic of a server or aggregator.
Result::ActorUse use_of(const Result& r, const std::string& name) {
  for (const Result::ActorUse& use : r.actors)
    if (use.name.starts_with(name)) return use;
  throw InternalError(name);
}

}  // namespace

TEST_CASE("64 servers are refused for 32 keys, unless keys are split", "[servers]") {
  std::string widths = "[64";
  for (int i = 0; i < 16; ++i) widths += ", 64";
  const auto run = [&widths](const std::string& split) {
    return simulate(
        read_scenario_text(fmt::format("cluster: {{nodes: 64, node: {{base: pcie-1, cpu: xeon-e5-2698-v4, hca: "
                                       "{{count: 1, rate: 10 Gbit/s, latency: 1 us}}}}, fabric: nonblocking}}\n"
                                       "model: {{mlp: {{widths: {}]}}}}\n"
                                       "plan: {{micro_batch_size: 1, precision: fp32, optimizer: sgd, data_parallel: "
                                       "{{size: 4, mechanism: parameter-server, servers: {{count: 64{}}}}}}}\n",
                                       widths, split),
                           "servers.yaml"));
  };
  CHECK_THROWS_WITH(
      run(""),
      Catch::Contains("64 servers, but mlp has 32 keys: at most as many servers as keys, or split: mxnet or byteps"));
  const Result sliced = run(", split: {bigarray_bound: 4096}");  // splits the weights
  CHECK(figure<std::int64_t>(sliced.servers, "keys") == 16 + 16 * 64);
  CHECK(figure<NumbersByName>(sliced.servers, "shares").size() == 64);
  CHECK(figure<double>(sliced.servers, "largest_share") < 1.5 / 64);
  const Result parts = run(", split: {partition_bytes: 1 kB}");
  CHECK(figure<std::int64_t>(parts.servers, "keys") == 16 + 16 * 17);  // 16384 bytes in parts of 1000
  // No key is large enough to split: servers without keys do nothing.
  const Result unsplit = run(", split: mxnet");
  CHECK(figure<std::int64_t>(unsplit.servers, "keys") == 32);
  CHECK(use_of(unsplit, "server 0").received.value > 0);
  CHECK(std::ranges::count_if(unsplit.actors, [](const auto& use) { return use.name.starts_with("server"); }) == 32);
}

TEST_CASE("the memory and the traffic of servers follow their rule", "[servers]") {
  const Result optimizer_rule = result_of("count: 2, split: {bigarray_bound: 1}"),
               sum_rule = result_of("count: 2, split: {bigarray_bound: 1}, rule: sum");
  // Weights, the sum and Adam's two moments lie on the servers, or the sum alone. Halves of odd tensors differ.
  const double parameter_bytes = 4 * kParameters;
  CHECK(use_of(optimizer_rule, "server 0").memory.value + use_of(optimizer_rule, "server 1").memory.value ==
        near(4 * parameter_bytes));
  CHECK(use_of(sum_rule, "server 0").memory.value + use_of(sum_rule, "server 1").memory.value == near(parameter_bytes));
  CHECK(optimizer_rule.memory.optimizer.value == 0);
  CHECK(sum_rule.memory.optimizer.value == near(2 * parameter_bytes));
  CHECK(sum_rule.memory.peak.value - optimizer_rule.memory.peak.value == near(2 * parameter_bytes));
  CHECK(sum_rule.bytes_total.value == near(2 * 8 * parameter_bytes));
  CHECK(figure<std::string>(sum_rule.servers, "rule") == "sum");
  CHECK(sum_rule.breakdown.optimizer.value > 0);
  CHECK(optimizer_rule.breakdown.optimizer.value == 0);
}

TEST_CASE("a node that aggregates sends one push", "[servers]") {
  const double parameter_bytes = 4 * kParameters;
  const Result from_each_worker = result_of("count: 1, place: dedicated"),
               on_cpu = result_of("count: 1, place: dedicated", "local_aggregation: cpu"),
               on_gpu = result_of("count: 1, place: dedicated", "local_aggregation: {on: gpu, reduce: chain}");
  CHECK(figure<std::int64_t>(from_each_worker.servers, "workers") == 6);
  CHECK(use_of(from_each_worker, "server 0").received.value == near(6 * parameter_bytes));
  for (const Result* r : {&on_cpu, &on_gpu}) {
    CHECK(use_of(*r, "server 0").received.value == near(3 * parameter_bytes));
    CHECK(use_of(*r, "server 0").sent.value == near(3 * parameter_bytes));
    CHECK(use_of(*r, "aggregator 2").memory.value == near(parameter_bytes));
    CHECK(r->step_time.value < from_each_worker.step_time.value);
  }
  CHECK(on_cpu.bytes_total.value == near(3 * 6 * parameter_bytes));  // reduce, up, push and back, of three nodes
  CHECK(on_gpu.bytes_total.value == near(3 * 4 * parameter_bytes));
  // The GPU holds what the CPU held.
  CHECK(on_gpu.memory.peak.value - on_cpu.memory.peak.value == near(parameter_bytes));
  CHECK(figure<std::vector<NamedTime>>(on_cpu.servers, "stages").size() == 8);
  CHECK(figure<std::vector<NamedTime>>(on_gpu.servers, "stages").size() == 6);
  CHECK(figure<std::vector<NamedTime>>(on_cpu.servers, "stages").at(0).time == near(on_cpu.breakdown.compute.value));
  const nlohmann::json j = to_json(on_cpu);
  CHECK(j.at("servers").at("stages").at(3).at("name") == "push");
  CHECK(to_json(result_from_json(j)) == j);
}

TEST_CASE("copies of keys take memory and traffic", "[servers]") {
  const double parameter_bytes = 4 * kParameters;
  const Result single_copies = result_of("count: 4, split: {bigarray_bound: 1}"),
               chain = result_of("count: 4, split: {bigarray_bound: 1}, replicas: 3"),
               parallel = result_of("count: 4, split: {bigarray_bound: 1}, replicas: {count: 3, forward: parallel}");
  const auto memory = [](const Result& r) {
    double sum = 0;
    for (const Result::ActorUse& use : r.actors)
      if (use.name.starts_with("server")) sum += use.memory.value;
    return sum;
  };
  CHECK(memory(single_copies) == near(4 * parameter_bytes));
  for (const Result* r : {&chain, &parallel}) {
    // A copy has weights and moments, but no sum.
    CHECK(memory(*r) == near(4 * parameter_bytes + 2 * 3 * parameter_bytes));
    CHECK(r->bytes_total.value == near(single_copies.bytes_total.value + 2 * 3 * parameter_bytes));
    CHECK(r->step_time.value > single_copies.step_time.value);
    CHECK(figure<std::int64_t>(r->servers, "copies") == 3);
  }
  const Result sums = result_of("count: 4, split: {bigarray_bound: 1}, rule: mean, replicas: 2");
  CHECK(memory(sums) == near(2 * parameter_bytes));
}

TEST_CASE("training goes on without a failed server if other servers have copies of its keys", "[servers][failures]") {
  const auto failures_of = [](const std::string& servers, const std::string& faults) {
    const std::string text =
        text_of(servers, "", "sgd", "step_time: 1 s, training: {steps: 100},") + "faults: {" + faults + "}\n";
    return *simulate_training(read_scenario_text(text, "faulty.yaml")).failures;
  };
  const std::string server_failure = "failures: [{at: 30.5 s, what: server 1}]";
  const std::string restart = ", restart: {detect: 2 s, restart: 60 s}";
  CHECK(failures_of("count: 2", server_failure).end.value == near(130.5));
  CHECK(failures_of("count: 2, replicas: 2", server_failure).end.value == near(100));
  CHECK(failures_of("count: 2, replicas: 2", server_failure).failures == 1);
  CHECK(failures_of("count: 2", server_failure + restart).end.value == near(192.5));
  // The servers answer nobody until the failure is detected, and the step begins again.
  CHECK(failures_of("count: 2, replicas: 2", server_failure + restart).end.value == near(102.5));
  // Only servers have copies.
  CHECK(failures_of("count: 2, replicas: 2", "failures: [{at: 30.5 s, what: worker 1}]").end.value == near(130.5));
  CHECK(failures_of("count: 2, replicas: 2", "failures: {mtbf: {server: 10 s}, runs: 3}").goodput == near(1));
}

TEST_CASE("impossible settings of servers are refused in one line", "[servers]") {
  CHECK_THAT(refusal("count: 1, split: mxnett"),
             Catch::Contains("servers.yaml:3") && Catch::Contains("did you mean \"mxnet\""));
  CHECK_THAT(refusal("count: 1, split: {}"), Catch::Contains("expected one of bigarray_bound"));
  CHECK_THAT(refusal("count: 1, split: {bigarray_bound: 0}"), Catch::Contains("the least is 1"));
  CHECK_THAT(refusal("count: 1, split: {bigarray_bound: 5, partition_bytes: 4 MB}"),
             Catch::Contains("expected one of"));
  CHECK_THAT(refusal("count: 1, split: {partition_bytes: 4}"), Catch::Contains("partition_bytes"));
  CHECK_THAT(refusal("count: 2, shards: split, split: mxnet"), Catch::Contains("leave out one"));
  CHECK_THAT(refusal("count: 2, split: {partition_bytes: 1 B}"), Catch::Contains("at most 65535"));
  CHECK_THAT(refusal("count: 2, rule: some"), Catch::Contains("servers.rule: unknown value \"some\""));
  CHECK_THAT(refusal("count: 2, rule: sum", "consistency: asynchronous"),
             Catch::Contains("needs consistency synchronous"));
  CHECK_THAT(refusal("count: 2, rule: mean", "backup_workers: 1"), Catch::Contains("no backup_workers"));
  CHECK_THAT(refusal("count: 4, keys: buckets, split: {bigarray_bound: 9000000}", "backup_workers: 1, bucket: 99 MB"),
             Catch::Contains("have no key, but with backup_workers each server needs one"));
  CHECK_THAT(refusal("count: 2, replicas: 3"),
             Catch::Contains("each key on 3 servers, but there are 2; at most as many"));
  CHECK_THAT(refusal("count: 2, replicas: 9"), Catch::Contains("the most is 8"));
  CHECK_THAT(refusal("count: 2, replicas: {count: 2, forward: tree}"), Catch::Contains("replicas.forward"));
  CHECK_THAT(refusal("count: 2", "local_aggregation: host"), Catch::Contains("local_aggregation: unknown value"));
  CHECK_THAT(refusal("count: 2", "local_aggregation: {reduce: chain}"),
             Catch::Contains("local_aggregation: missing key \"on\""));
  CHECK_THAT(refusal("count: 2", "local_aggregation: {on: cpu, reduce: ring}"), Catch::Contains("ring"));
  CHECK_THAT(refusal("count: 2", "local_aggregation: cpu, backup_workers: 1"), Catch::Contains("of single workers"));
}

}  // namespace scenarios_test_server_ways
