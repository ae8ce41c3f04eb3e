// Scenarios with split keys, aggregation in nodes, server rules and copies of keys: memory, traffic, failures, refusals.
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
    return simulate(read_scenario_text(
        fmt::format(
            "cluster: {{nodes: 64, node: {{base: pcie-1, cpu: xeon-e5-2698-v4, hca: {{count: 1, rate: 10 Gbit/s, "
            "latency: 1 us}}}}, fabric: nonblocking}}\n"
            "model: {{mlp: {{widths: {}]}}}}\n"
            "plan: {{micro_batch_size: 1, precision: fp32, optimizer: sgd, data_parallel: {{size: 4, mechanism: "
            "parameter-server, servers: {{count: 64{}}}}}}}\n",
            widths, split),
        "servers.yaml"));
  };
  CHECK_THROWS_WITH(run(""), Catch::Contains("64 servers, but mlp has 32 keys: at most as many servers as keys, or "
                                             "split: mxnet or byteps"));
  const Result sliced = run(", split: {bigarray_bound: 4096}");  // the weights
  CHECK(figure<std::int64_t>(sliced.servers, "keys") == 16 + 16 * 64);
  CHECK(figure<NumbersByName>(sliced.servers, "shares").size() == 64);
  CHECK(figure<double>(sliced.servers, "largest_share") < 1.5 / 64);
  const Result parts = run(", split: {partition_bytes: 1 kB}");
  CHECK(figure<std::int64_t>(parts.servers, "keys") == 16 + 16 * 17);  // 16384 bytes in parts of 1000
  const Result idle = run(", split: mxnet");  // nothing is large enough: servers without keys do nothing
  CHECK(figure<std::int64_t>(idle.servers, "keys") == 32);
  CHECK(use_of(idle, "server 0").received.value > 0);
  CHECK(std::count_if(idle.actors.begin(), idle.actors.end(),
                      [](const auto& use) { return use.name.starts_with("server"); }) == 32);
}

TEST_CASE("the memory and the traffic of servers follow their rule", "[servers]") {
  const Result optimizer = result_of("count: 2, split: {bigarray_bound: 1}"),
               sum = result_of("count: 2, split: {bigarray_bound: 1}, rule: sum");
  // Adam: weights, the sum and two moments lie on the servers, or the sum alone. Halves of odd tensors differ.
  const double all = 4 * kParameters;
  CHECK(use_of(optimizer, "server 0").memory.value + use_of(optimizer, "server 1").memory.value == near(4 * all));
  CHECK(use_of(sum, "server 0").memory.value + use_of(sum, "server 1").memory.value == near(all));
  CHECK(optimizer.memory.optimizer.value == 0);
  CHECK(sum.memory.optimizer.value == near(2 * all));
  CHECK(sum.memory.peak.value - optimizer.memory.peak.value == near(2 * all));
  CHECK(sum.bytes_total.value == near(2 * 8 * all));
  CHECK(figure<std::string>(sum.servers, "rule") == "sum");
  CHECK(sum.breakdown.optimizer.value > 0);
  CHECK(optimizer.breakdown.optimizer.value == 0);
}

TEST_CASE("a node that aggregates sends one push", "[servers]") {
  const double all = 4 * kParameters;
  const Result each = result_of("count: 1, place: dedicated"),
               cpu = result_of("count: 1, place: dedicated", "local_aggregation: cpu"),
               gpu = result_of("count: 1, place: dedicated", "local_aggregation: {on: gpu, reduce: chain}");
  CHECK(figure<std::int64_t>(each.servers, "workers") == 6);
  CHECK(use_of(each, "server 0").received.value == near(6 * all));
  for (const Result* r : {&cpu, &gpu}) {
    CHECK(use_of(*r, "server 0").received.value == near(3 * all));
    CHECK(use_of(*r, "server 0").sent.value == near(3 * all));
    CHECK(use_of(*r, "aggregator 2").memory.value == near(all));
    CHECK(r->step_time.value < each.step_time.value);
  }
  CHECK(cpu.bytes_total.value == near(3 * 6 * all));  // reduce, up, push and back, of three nodes
  CHECK(gpu.bytes_total.value == near(3 * 4 * all));
  CHECK(gpu.memory.peak.value - cpu.memory.peak.value == near(all));  // the GPU holds what the CPU did
  CHECK(figure<std::vector<NamedTime>>(cpu.servers, "stages").size() == 8);
  CHECK(figure<std::vector<NamedTime>>(gpu.servers, "stages").size() == 6);
  CHECK(figure<std::vector<NamedTime>>(cpu.servers, "stages").at(0).time == near(cpu.breakdown.compute.value));
  const nlohmann::json j = to_json(cpu);
  CHECK(j.at("servers").at("stages").at(3).at("name") == "push");
  CHECK(to_json(result_from_json(j)) == j);
}

TEST_CASE("copies of keys take memory and traffic", "[servers]") {
  const double all = 4 * kParameters;
  const Result one = result_of("count: 4, split: {bigarray_bound: 1}"),
               chain = result_of("count: 4, split: {bigarray_bound: 1}, replicas: 3"),
               parallel = result_of("count: 4, split: {bigarray_bound: 1}, replicas: {count: 3, forward: parallel}");
  const auto memory = [](const Result& r) {
    double sum = 0;
    for (const Result::ActorUse& use : r.actors)
      if (use.name.starts_with("server")) sum += use.memory.value;
    return sum;
  };
  CHECK(memory(one) == near(4 * all));
  for (const Result* r : {&chain, &parallel}) {
    CHECK(memory(*r) == near(4 * all + 2 * 3 * all));  // a copy: weights and moments, no sum
    CHECK(r->bytes_total.value == near(one.bytes_total.value + 2 * 3 * all));
    CHECK(r->step_time.value > one.step_time.value);
    CHECK(figure<std::int64_t>(r->servers, "copies") == 3);
  }
  const Result sums = result_of("count: 4, split: {bigarray_bound: 1}, rule: mean, replicas: 2");
  CHECK(memory(sums) == near(2 * all));
}

TEST_CASE("training goes on without a failed server if other servers have copies of its keys", "[servers][failures]") {
  const auto failures_of = [](const std::string& servers, const std::string& faults) {
    const std::string text =
        text_of(servers, "", "sgd", "step_time: 1 s, training: {steps: 100},") + "faults: {" + faults + "}\n";
    return *simulate_training(read_scenario_text(text, "faulty.yaml")).failures;
  };
  const std::string dies = "failures: [{at: 30.5 s, what: server 1}]";
  const std::string restart = ", restart: {detect: 2 s, restart: 60 s}";
  CHECK(failures_of("count: 2", dies).end.value == near(130.5));
  CHECK(failures_of("count: 2, replicas: 2", dies).end.value == near(100));
  CHECK(failures_of("count: 2, replicas: 2", dies).failures == 1);
  CHECK(failures_of("count: 2", dies + restart).end.value == near(192.5));
  // Until it is detected nobody is answered, and the step begins again.
  CHECK(failures_of("count: 2, replicas: 2", dies + restart).end.value == near(102.5));
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
