// A plan that names no algorithm has the collectives of its stack's library, on the links of its machine.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <cmath>

#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/simulate.hpp"

namespace scenarios_test_default_collectives {

using namespace trainyard;

namespace {

const std::string kTwoDgx = "{nodes: 2, node: dgx-a100, fabric: nonblocking}";

Scenario scenario_on(const std::string& cluster, const Overrides& overrides = {}) {
  return read_scenario_text("cluster: " + cluster +
                                "\nmodel: {base: gpt2, n_layer: 4}\n"
                                "plan: {global_batch_size: 64, micro_batch_size: 1, seq_length: 64, precision: fp16}\n"
                                "software: pytorch-ddp\n",
                            "step.yaml", overrides);
}

Result step_on(const std::string& cluster, const Overrides& overrides = {}) {
  return simulate(scenario_on(cluster, overrides));
}

const std::string kAlgorithm = "plan.data_parallel.all_reduce";

}  // namespace

TEST_CASE("plain data parallelism all-reduces as NCCL does it", "[collectives][default]") {
  const Result r = step_on(kTwoDgx);
  CHECK(r.all_reduce.algorithm == "NCCL, tree, Simple");
  CHECK(r.all_reduce.channels == 0);
  CHECK(r.all_reduce.fidelity == "modelled");
  CHECK(r.step_time.value ==
        Approx(step_on(kTwoDgx, {{kAlgorithm, "{fidelity: modelled}"}}).step_time.value).epsilon(1e-12));
  // One ring in rank order leaves a node by one of its eight HCAs.
  const Result ring = step_on(kTwoDgx, {{kAlgorithm, "ring"}});
  CHECK(ring.all_reduce.algorithm == "ring");
  CHECK(ring.step_time.value > 1.1 * r.step_time.value);
  // ZeRO 1 moves the same bytes, so it is hardly faster.
  const Result zero = step_on(kTwoDgx, {{"plan.data_parallel.zero_stage", "1"}});
  CHECK(zero.step_time.value > 0.9 * r.step_time.value);
  CHECK(zero.all_reduce.algorithm == "NCCL, ring, Simple");  // a reduce-scatter has no tree
  CHECK(zero.all_reduce.channels == 8);                      // each ring leaves a node by another HCA
}

TEST_CASE("plan.collectives also sets the all-reduce of plain data parallelism", "[collectives][default]") {
  const Result messages = step_on(kTwoDgx, {{"plan.collectives", "messages"}});
  CHECK(messages.all_reduce.algorithm == "ring");
  CHECK(messages.step_time.value == Approx(step_on(kTwoDgx, {{kAlgorithm, "ring"}}).step_time.value).epsilon(1e-12));
  CHECK(step_on(kTwoDgx, {{"plan.collectives", "modelled"}}).all_reduce.algorithm.starts_with("NCCL, "));
  CHECK(step_on(kTwoDgx, {{"plan.collectives", "messages"}, {kAlgorithm, "hierarchical"}}).all_reduce.algorithm ==
        "hierarchical");
}

TEST_CASE("stacks without NCCL take one ring, and the chips of a pod all links of their torus",
          "[collectives][default]") {
  CHECK(
      step_on("{nodes: 2, node: t4-server, fabric: nonblocking}", {{"software", "horovod-tcp"}}).all_reduce.algorithm ==
      "ring");
  CHECK(step_on("{nodes: 2, node: tpu-v3-host, fabric: tpu-v3-torus}",
                {{"plan.precision", "bf16"}, {"software", "plain"}})
            .all_reduce.algorithm == "torus");
}

TEST_CASE("gathers and sums over chips of a pod follow the dimensions of their torus", "[collectives][default]") {
  // 64 chips are a cube of 4 chips a side: four tensor ranks are a ring, and 16 data ranks a square of rings.
  const std::string cluster = "{nodes: 16, node: tpu-v4-host, fabric: tpu-v4-torus}";
  const Overrides split{{"plan.precision", "bf16"},
                        {"software", "jax"},
                        {"plan.tensor_parallel", "4"},
                        {"plan.data_parallel.zero_stage", "3"}};
  const auto step_with = [&](const std::string& key, const std::string& value) {
    Overrides all = split;
    all.emplace_back(key, value);
    return step_on(cluster, all).step_time.value;
  };
  const double flows = step_on(cluster, split).step_time.value;
  CHECK(step_with("plan.collectives", "flows") == Approx(flows).epsilon(1e-12));
  CHECK(step_with("plan.collectives", "messages") == Approx(flows).epsilon(0.02));
  CHECK(step_with(kAlgorithm, "torus") == Approx(flows).epsilon(0.02));  // by messages
  CHECK(step_with(kAlgorithm, "ring") > flows);
}

TEST_CASE("JAX sums the gradients of slices beside no kernel, and each step of their ring takes the stack's time",
          "[collectives][default]") {
  const auto step_with = [](int slices, const std::string& key, const std::string& value) {
    return step_on(
        fmt::format("{{nodes: {}, node: tpu-v4-host, fabric: {{base: tpu-v4-torus, slices: {}}}}}", 4 * slices, slices),
        {{"plan.precision", "bf16"},
         {"plan.global_batch_size", fmt::format("{}", 16 * slices)},
         {"plan.data_parallel", "{zero_stage: 3, zero_group: 16}"},
         {"software", "jax"},
         {key, value}});
  };
  const auto growth = [&](int slices) {
    return step_with(slices, "software.slice_step", "3 ms").step_time.value -
           step_with(slices, "software.slice_step", "2 ms").step_time.value;
  };
  // An all-reduce of n slices has 2(n - 1) steps. There is one for each of the four blocks, and for the embeddings.
  const double of_two = growth(2);
  CHECK(std::round(of_two / 2e-3) >= 5);
  CHECK(of_two / 2e-3 == Approx(std::round(of_two / 2e-3)).epsilon(1e-6));
  CHECK(growth(4) == Approx(3 * of_two).epsilon(1e-6));
  const Result alone = step_with(2, "software.slice_step", "1 ms");
  CHECK(alone.breakdown.exposed_communication.at("all-reduce over copies") > 0.01);
  CHECK(step_with(2, "plan.data_parallel.overlap_copies", "true").step_time.value < alone.step_time.value);
  CHECK_THROWS_WITH(
      step_on("{nodes: 4, node: tpu-v4-host, fabric: tpu-v4-torus}",
              {{"software", "jax"}, {"plan.precision", "bf16"}, {"plan.data_parallel.overlap_copies", "false"}}),
      Catch::Contains("overlap_copies: with zero_group only"));
}

TEST_CASE("JAX sums the gradients of copies beside no kernel on GPUs, too", "[collectives][default]") {
  const auto exposed = [](const char* stack, const Overrides& more = {}) {
    Overrides all{{"plan.precision", "bf16"},
                  {"plan.data_parallel", "{zero_stage: 3, zero_group: 8}"},
                  {"plan.global_batch_size", "16"},
                  {"software", stack}};
    all.insert(all.end(), more.begin(), more.end());
    return step_on("{nodes: 2, node: dgx-h100, fabric: nonblocking}", all)
        .breakdown.exposed_communication["all-reduce over copies"];
  };
  CHECK(exposed("jax") > 1.1 * exposed("jax", {{"plan.data_parallel.overlap_copies", "true"}}));
  CHECK(exposed("pytorch-fsdp") < exposed("pytorch-fsdp", {{"plan.data_parallel.overlap_copies", "false"}}));
}

TEST_CASE("ZeRO reduces, scatters and gathers by the algorithm that a plan names", "[collectives][default]") {
  // A ring in each direction beside each other, in all three exchanges: each has channels of its own.
  const auto step_with = [](const char* zero, const char* algorithm) {
    return step_on("{nodes: 16, node: tpu-v4-host, fabric: tpu-v4-torus}", {{"software", "plain"},
                                                                            {"plan.precision", "bf16"},
                                                                            {"plan.data_parallel.zero_stage", zero},
                                                                            {kAlgorithm, algorithm}});
  };
  for (const char* zero : {"1", "2", "3"}) {
    CAPTURE(zero);
    const Result one_way = step_with(zero, "ring"), both_ways = step_with(zero, "bidirectional-ring");
    CHECK(step_with(zero, "null").step_time.value < both_ways.step_time.value);
    CHECK(both_ways.step_time.value < 0.8 * one_way.step_time.value);
    CHECK_THROWS_WITH(step_with(zero, "chain"), Catch::Contains("chain has no reduce-scatter, which zero_stage"));
  }
}

TEST_CASE("the model of NCCL gives the same time whether equal nodes are one entry or two", "[collectives][default]") {
  const double time_of_one_entry = step_on(kTwoDgx).step_time.value;
  const std::string one_node = "{count: 1, node: dgx-a100}";
  CHECK(step_on("{nodes: [" + one_node + ", " + one_node + "], fabric: nonblocking}").step_time.value ==
        Approx(time_of_one_entry).epsilon(1e-12));
}

TEST_CASE("mixed nodes wait for the slower node's NCCL, and have as many rings as the smaller node has GPUs",
          "[collectives][default]") {
  const auto two_nodes = [](const std::string& a, const std::string& b) {
    return "{nodes: [{count: 1, node: " + a + "}, {count: 1, node: " + b + "}], fabric: nonblocking}";
  };
  const Overrides no_overlap{{"plan.data_parallel.overlap", "false"}};
  const auto exposed_seconds = [&](const std::string& cluster, const Overrides& more = {}) {
    Overrides all = no_overlap;
    all.insert(all.end(), more.begin(), more.end());
    double sum = 0;
    for (const auto& [group, seconds] : step_on(cluster, all).breakdown.exposed_communication) sum += seconds;
    return sum;
  };
  const double h100_time = exposed_seconds(two_nodes("dgx-h100", "dgx-h100")),
               a100_time = exposed_seconds(two_nodes("dgx-a100", "dgx-a100"));
  CHECK(a100_time > 1.2 * h100_time);
  CHECK(exposed_seconds(two_nodes("dgx-a100", "dgx-h100")) >= 0.99 * a100_time);
  // Nodes with unequal numbers of GPUs have as many rings as the smaller node has GPUs. Adapters of 100 Gbit/s make the
  // network the limit, and not the chains of trees inside the nodes.
  const auto with_gpus = [](int gpus) {
    const std::string count = "{count: " + std::to_string(gpus);
    return "{nodes: [{count: 1, node: dgx-a100, hca: {rate: 100 Gbit/s}}, {count: 1, node: dgx-a100, gpu: " + count +
           "}, hca: " + count + ", rate: 100 Gbit/s}}], fabric: nonblocking}";
  };
  const double equal_time = exposed_seconds(with_gpus(8)),
               unequal_time = exposed_seconds(with_gpus(4), {{"plan.global_batch_size", "48"}});
  CHECK(unequal_time > 1.5 * equal_time);
  CHECK(unequal_time < 2.5 * equal_time);
}

TEST_CASE("several HCAs of a GPU carry as much as one HCA with their summed rate", "[collectives][default]") {
  const auto step_with = [](int count, const char* rate) {
    return step_on(std::string("{nodes: 2, node: dgx-a100, fabric: nonblocking, hca: {count: ") +
                       std::to_string(count) + ", rate: " + rate + "}}",
                   {{"plan.data_parallel.overlap", "false"}})
        .step_time.value;
  };
  const double time_of_one_hca = step_with(8, "100 Gbit/s");
  // One channel of a tree for each HCA of 100 Gbit/s is 1 % slower than the HCAs (NVIDIA/nccl src/graph/tuning.cc).
  CHECK(step_with(16, "50 Gbit/s") == Approx(time_of_one_hca).epsilon(2e-3));
  CHECK(step_with(32, "25 Gbit/s") == Approx(step_with(16, "50 Gbit/s")).epsilon(1e-6));
  CHECK(step_with(16, "100 Gbit/s") < time_of_one_hca);
}

TEST_CASE("the model of NCCL follows PCIe if there is no NVLink", "[collectives][default]") {
  const auto step_with = [](const char* rate) {
    return step_on("{nodes: 1, node: pcie-4}",
                   {{"plan.data_parallel.overlap", "false"}, {"cluster.pcie.rate", rate}, {"plan.precision", "fp32"}})
        .breakdown.exposed_communication.begin()
        ->second;
  };
  CHECK(step_with("8 GB/s") > 1.5 * step_with("15.75 GB/s"));
}

TEST_CASE("a plan names the machine from which NCCL's model is scaled, if its own machine was not fitted",
          "[collectives][default]") {
  const auto scaled_from = [](const std::string& cluster) { return scenario_on(cluster).plan.all_reduce.scaled; };
  CHECK(scaled_from("{nodes: 1, node: dgx-a100}").empty());
  CHECK(scaled_from(kTwoDgx).empty());
  const std::string judged = scenario_on(kTwoDgx).plan.all_reduce.errors.in_words(false, true);
  CHECK(judged.starts_with("between nodes by infiniband, "));
  CHECK(judged.find("left out of the fit in turn: median error ") != std::string::npos);
  CHECK(scaled_from("{nodes: 1, node: pcie-4}").starts_with("scaled from "));
}

TEST_CASE("a key of the all-reduce gives the others the defaults that their words state", "[collectives][default]") {
  const auto choice = [](const std::string& keys) {
    return scenario_on(kTwoDgx, {{kAlgorithm, keys}}).plan.all_reduce;
  };
  for (const char* keys : {"{channels: 2}", "{fidelity: flows}"}) {
    CAPTURE(keys);
    const CollectiveChoice chosen = choice(keys);
    REQUIRE(chosen.algorithm);
    CHECK(std::string(chosen.algorithm->name) == "ring");
    CHECK((chosen.settings.fidelity == Fidelity::messages) ==
          (std::string(keys).find("fidelity") == std::string::npos));
    CHECK((chosen.settings.channels == 1) == (std::string(keys) != "{channels: 2}"));
    CHECK(chosen.settings.chunk == Bytes{512.0 * 1024});
  }
  CHECK(step_on(kTwoDgx, {{kAlgorithm, "{fidelity: modelled}"}}).all_reduce.algorithm == "NCCL, tree, Simple");
}

TEST_CASE("the network's latency in a collective of NCCL is no part of NCCL's start-up", "[collectives][path]") {
  const auto step = [](const std::string& latency) {
    return step_on(kTwoDgx, {{"cluster.node.hca.latency", latency}, {"plan.data_parallel.overlap", "false"}});
  };
  const Result near = step("1 us"), far = step("10 ms"), half = step("5 ms");
  for (const Result* r : {&near, &far, &half}) {
    double sum = 0;
    for (const auto& [resource, seconds] : r->critical_path) sum += seconds;
    CHECK(sum == Approx(r->step_time.value).epsilon(1e-9));
  }
  CHECK(far.bottleneck == "latency");
  CHECK(far.critical_path.at("latency") > 0.5 * far.step_time.value);
  CHECK(far.critical_path.at(kLibraryStart) < 0.1 * far.step_time.value);
  // Half of the adapters' latency saves half of the share that they have in it, but for the switch.
  CHECK(far.step_time.value - half.step_time.value == Approx(far.critical_path.at("latency") / 2).epsilon(0.01));
  CHECK(far.critical_path.at(kLibraryStart) == Approx(half.critical_path.at(kLibraryStart)).epsilon(0.01));
  CHECK(near.critical_path.at(kLibraryStart) == Approx(far.critical_path.at(kLibraryStart)).epsilon(0.01));
}

TEST_CASE("the launch of a collective of messages is framework on the critical path, not latency of the network",
          "[collectives][what-if]") {
  const auto step = [](const char* launch) {
    return step_on(
        kTwoDgx,
        {{kAlgorithm, "ring"}, {"plan.data_parallel.overlap", "false"}, {"software.collective_launch", launch}});
  };
  const Result early = step("0 s"), late = step("50 ms");
  const double added = late.step_time.value - early.step_time.value;
  CHECK(added >= 0.05);
  for (const auto& [resource, seconds] : late.critical_path) {
    CAPTURE(resource);
    const auto before = early.critical_path.find(resource);
    const double growth = seconds - (before == early.critical_path.end() ? 0 : before->second);
    CHECK(growth == Approx(resource == "framework" ? added : 0).margin(1e-9));
  }
}

}  // namespace scenarios_test_default_collectives
