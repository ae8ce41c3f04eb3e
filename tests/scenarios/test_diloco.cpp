// DiLoCo: groups of ranks train alone for many steps, and exchange what they learned over a slow network.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <algorithm>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/path_resources.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "scenarios/src/studies/mesh_what_if.hpp"
#include "tests/user_errors.hpp"
#include "tools/reports/report.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace scenarios_test_diloco {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

/// Two sites with four T4 each, joined by 1 Gbit/s.
Scenario two_sites(const std::string& keys, const std::string& states = "zero_stage: 3, zero_group: 4") {
  return read_scenario_text(
      "cluster: {nodes: 2, node: {base: t4-server, hca: {rate: 1 Gbit/s, latency: 1 us}}, fabric: nonblocking}\n"
      "model: {base: gpt2, n_layer: 4}\nsoftware: pytorch-fsdp\n"
      "plan: {global_batch_size: 32, micro_batch_size: 4, seq_length: 1024, precision: fp16, optimizer: adamw, "
      "collectives: flows, data_parallel: {" +
          states + keys + "}}\n",
      "sites.yaml");
}

double exposed_seconds(const Result& r) {
  const auto& groups = r.breakdown.exposed_communication;
  const auto found = groups.find("all-reduce over copies");
  return found == groups.end() ? 0 : found->second;
}

}  // namespace

TEST_CASE("workers of DiLoCo pay for an exchange once in their inner steps", "[mechanism][diloco]") {
  const std::string diloco = ", mechanism: diloco, inner_steps: ";
  const Result summed = simulate(two_sites("")), four_steps = simulate(two_sites(diloco + "4")),
               eight_steps = simulate(two_sites(diloco + "8")),
               int8_exchange = simulate(two_sites(diloco + "4, outer_precision: int8"));
  CHECK(exposed_seconds(four_steps) > 0);
  CHECK(exposed_seconds(four_steps) == Approx(2 * exposed_seconds(eight_steps)).epsilon(0.02));
  CHECK(exposed_seconds(four_steps) == Approx(4 * exposed_seconds(int8_exchange)).epsilon(0.02));
  CHECK(four_steps.step_time.value < summed.step_time.value);
  CHECK(figure<std::int64_t>(four_steps.replicas, "inner_steps") == 4);
  CHECK(figure<std::int64_t>(four_steps.replicas, "workers") == 2);
  // The four GPUs of a site share, in fp32, the parameters at the beginning of the inner steps, and a momentum.
  const double parameters = two_sites("").network.parameters();
  CHECK(four_steps.memory.optimizer.value - summed.memory.optimizer.value == Approx(8 * parameters / 4).epsilon(1e-6));
  // An exchange that overlaps inner steps costs less, both whole and in fragments.
  const Result overlapped = simulate(two_sites(diloco + "8, overlap_steps: 7")),
               fragments = simulate(two_sites(diloco + "8, fragments: 2, overlap_steps: 3"));
  CHECK(exposed_seconds(overlapped) < 0.9 * exposed_seconds(eight_steps));
  CHECK(exposed_seconds(fragments) < 0.9 * exposed_seconds(eight_steps));
  // Other divisions of a model make workers too: here, each replica of two tensor ranks is one.
  const Result tensor_workers =
      simulate(read_again(two_sites(diloco + "4", "zero_stage: 0"), {{"plan.tensor_parallel", "2"}}));
  CHECK(figure<std::int64_t>(tensor_workers.replicas, "workers") == 4);
}

TEST_CASE("kernels beside an exchange over a slow network lose at most what its rate takes of the memory",
          "[mechanism][diloco]") {
  // Workers of one GPU, whose only messages are those of the exchange: no kernel is beside another message.
  const auto workers = [](const std::string& machine, const std::string& rate, const std::string& keys) {
    return simulate(read_scenario_text(
        "cluster: {" + machine + ", hca: {rate: " + rate +
            ", latency: 1 us}, fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 4}\nsoftware: {base: pytorch-fsdp, "
            "step_overhead: 0 ms, slowdowns: {elementwise: 1}}\n"
            "plan: {global_batch_size: 32, micro_batch_size: 4, seq_length: 1024, precision: fp16, optimizer: adamw, "
            "collectives: flows, data_parallel: {zero_stage: 0, mechanism: diloco, inner_steps: 8" +
            keys + "}}\n",
        "workers.yaml"));
  };
  const std::string sites = "nodes: 2, node: {base: t4-server, gpu: {count: 1}}", in_node = "nodes: 1, node: t4-server";
  const std::string overlap = ", overlap_steps: 7";
  const auto compute = [](const Result& r) { return r.breakdown.compute.value; };
  // The exchange takes longer than the seven steps beside it. 200 x 125 MB/s are 7.8 % of the T4's 320 GB/s; the stack's
  // slow-down beside NVLink, 2, held before.
  for (const auto& [rate, bound] : {std::pair{"100 Mbit/s", 200 * 0.0125 / 320}, {"1 Gbit/s", 200 * 0.125 / 320}}) {
    const double apart = compute(workers(sites, rate, "")), beside = compute(workers(sites, rate, overlap));
    CAPTURE(rate, beside / apart);
    CHECK(beside / apart > 1 + 0.5 * bound);
    CHECK(beside / apart < 1 + 1.001 * bound);
  }
  // In a node, kernels run at half their speed while the exchange lasts, as the stack states it: in so long they lose half
  // of that time.
  const Result apart = workers(in_node, "100 Gbit/s", ""), beside = workers(in_node, "100 Gbit/s", overlap);
  double exchange = 0;
  for (const auto& [group, seconds] : apart.breakdown.exposed_communication) exchange += seconds;
  CHECK(exchange > 0);
  CHECK(compute(beside) - compute(apart) == Approx(exchange / 2).epsilon(0.01));
  // The critical path books what exchanges add to the kernels beside them, and no more.
  CHECK(beside.critical_path.at(kSlowdownName) == Approx(compute(beside) - compute(apart)).epsilon(0.01));
  CHECK_FALSE(apart.critical_path.contains(kSlowdownName));
}

TEST_CASE("a faster network between sites or nodes never makes a step longer", "[mechanism][diloco]") {
  // Kernels run beside the exchange. Its latency, up to 1.2 s, must not slow them more over a faster link.
  const auto step = [](const char* latency, const char* collectives, int rate, Folding folding = Folding::automatic) {
    return simulate(
               read_scenario_text(
                   fmt::format("cluster: {{nodes: 4, node: {{base: t4-server, gpu: {{count: 1}}}}, hca: {{rate: {} "
                               "Mbit/s, latency: {}}}, fabric: nonblocking}}\nmodel: {{base: gpt2, n_layer: 4}}\n"
                               "software: pytorch-fsdp\nplan: {{global_batch_size: 64, micro_batch_size: 4, "
                               "seq_length: 1024, precision: fp16, optimizer: adamw, collectives: {}, "
                               "data_parallel: {{zero_stage: 0, mechanism: diloco, inner_steps: 16, fragments: 2, "
                               "overlap_steps: 7}}}}\n",
                               rate, latency, collectives),
                   "faster.yaml"),
               {.critical_path = false, .folding = folding})
        .step_time.value;
  };
  for (const char* collectives : {"flows", "messages"})
    CHECK(step("100 ms", collectives, 1000, Folding::off) == Approx(step("100 ms", collectives, 1000)).epsilon(1e-12));
  for (const char* collectives : {"flows", "messages"})
    for (const char* latency : {"5 us", "1 ms", "100 ms"}) {
      double before = step(latency, collectives, 100);
      for (const int rate : {1000, 4000, 12000, 13000, 40000, 200000}) {
        const double now = step(latency, collectives, rate);
        CAPTURE(collectives, latency, rate);
        CHECK(now <= before * (1 + 1e-9));
        before = now;
      }
    }
}

TEST_CASE("published figures of low-communication training follow from the simulation", "[mechanism][diloco]") {
  const auto training = [](const std::string& data_parallel, const std::string& overrides = "fp32") {
    return read_scenario_text(
        "cluster: {nodes: 4, node: {base: t4-server, gpu: {count: 1}}, hca: {rate: 100 Mbit/s, latency: 1 us}, fabric: "
        "nonblocking}\nmodel: {base: gpt2, n_layer: 4}\nsoftware: pytorch-fsdp\n"
        "plan: {global_batch_size: 32, micro_batch_size: 4, seq_length: 1024, precision: " +
            overrides + ", optimizer: adamw, collectives: flows, data_parallel: {zero_stage: 0" + data_parallel +
            "}}\n",
        "published.yaml");
  };
  // INTELLECT-1's abstract (arXiv:2412.01152): 100 inner steps and 8 bits are 400 times fewer bytes than fp32.
  const Scenario workers = training(", mechanism: diloco, inner_steps: 100, outer_precision: int8");
  const double summed = simulate(training("")).bytes_by_link_kind.at("HCA"),
               outer = simulate(workers).bytes_by_link_kind.at("HCA");
  CHECK(summed / outer == Approx(400).epsilon(1e-3));
  // arXiv:2503.09799, appendix A.3: 2 N / W x (1 - 1/R), here with a byte for each of N parameters.
  double exchange = 0;
  for (const auto& [group, seconds] : simulate(workers).breakdown.exposed_communication) exchange += 100 * seconds;
  const double bytes = workers.network.parameters(), rate = workers.cluster.node.hca_rate.value;
  CHECK(exchange == Approx(2 * bytes / rate * (1 - 1.0 / 4)).epsilon(0.01));
}

TEST_CASE("the exchanges of INTELLECT-1 take the times that its links are assumed for", "[diloco]") {
  for (const auto& [row, seconds] : {std::pair{"usa", 103.0}, {"three-continents", 473.0}}) {
    const Result r =
        simulate(read_scenario(shipped_file("scenarios/measured/diloco/intellect-1.yaml@" + std::string(row))));
    CHECK(100 * r.breakdown.exposed_communication.at("all-reduce over copies") == Approx(seconds).epsilon(0.005));
  }
}

TEST_CASE("no measured run has a network so slow that its rate bounds the slow-down of kernels", "[diloco][validate]") {
  int clusters = 0;
  for (const char* set : {"training", "training-2026", "mlperf", "mlperf-v6", "outside-the-fit", "schedules",
                          "published", "dataparallel", "horovod"})
    for (const MeasuredFamily& family : measured_families({set}))
      for (std::size_t row = 0; row < family.ids.size(); ++row) {
        const Scenario s = read_scenario(family.scenario(row), family.ids[row]);
        if (!s.cluster.uses_hcas()) continue;
        ++clusters;
        CAPTURE(set, family.name, family.ids[row]);
        for (const NodeType* type : s.cluster.types()) CHECK_FALSE(has_slow_network(*type));
      }
  CHECK(clusters > 300);
}

TEST_CASE("pipelines that cross the network between sites are named with the order that keeps them in a site",
          "[mechanism][diloco][what-if]") {
  const Scenario crossing = read_again(
      two_sites(", mechanism: diloco, inner_steps: 4", "zero_stage: 0"),
      {{"plan.pipeline_parallel", "2"}, {"cluster.node.hca.latency", "50 ms"}, {"plan.collectives", "flows"}});
  AnswerOptions options;
  options.factor = 2;
  const Answer a = answer(crossing, options);
  const auto found = std::ranges::find(a.what_ifs, kMeshOrder, &WhatIf::resource_class);
  REQUIRE(found != a.what_ifs.end());
  CHECK(found->sets == std::vector<std::string>{"plan.mesh_order=[tensor, context, pipeline, data]"});
  const Scenario changed = read_again(crossing, {{"plan.mesh_order", "[tensor, context, pipeline, data]"}});
  CHECK(simulate(changed).step_time.value == Approx(found->step_time.value));
  CHECK(found->step_time < 0.5 * a.result.step_time);
  CHECK_THAT(screen(crossing, plan(crossing), a.result, a.what_ifs),
             Contains("--set \"plan.mesh_order=[tensor, context, pipeline, data]\""));
  std::vector<RefusedWhatIf> refused;
  const auto has_advice = [&refused](const Scenario& s) { return mesh_what_if(s, {}, refused).has_value(); };
  CHECK(has_advice(crossing));
  CHECK_FALSE(has_advice(changed));                                                       // an order is stated
  CHECK_FALSE(has_advice(read_again(crossing, {{"cluster.node.hca.latency", "5 us"}})));  // one site
  CHECK_FALSE(has_advice(read_again(crossing, {{"plan.pipeline_parallel", "1"}})));
}

TEST_CASE("a lossy wide-area network is simulated, because workers exchange seldom", "[mechanism][diloco]") {
  const std::vector<std::pair<std::string, std::string>> lossy{{"cluster.node.hca.transport", "tcp"},
                                                               {"cluster.node.hca.flow_control", "none"},
                                                               {"cluster.node.hca.latency", "50 ms"},
                                                               {"cluster.node.hca.loss", "1e-4"}};
  const Scenario clean = two_sites(", mechanism: diloco, inner_steps: 100");
  CHECK(simulate(read_again(clean, lossy)).step_time > simulate(clean).step_time);
}

TEST_CASE("DiLoCo refuses plans that make no workers or no exchange", "[mechanism][diloco][errors]") {
  const auto error = [](const std::string& keys, const std::string& states = "zero_stage: 3, zero_group: 4") {
    return test::user_error([&] { two_sites(", mechanism: diloco, inner_steps: 4" + keys, states); });
  };
  CHECK_THAT(error("", "zero_stage: 3"), Contains("makes one worker of them; expected zero_group"));
  CHECK_THAT(error(", fragments: 3"), Contains("3 do not divide the 4 inner steps; nearest: 2 or 4"));
  CHECK_THAT(error(", overlap_steps: 4"), Contains("expected at most 3"));
  CHECK_THAT(error(", compression: {name: top-k, density: 0.01}", "zero_stage: 0"),
             Contains("workers exchange outer gradients"));
  CHECK_THAT(test::user_error([] { two_sites(", fragments: 2"); }), Contains("with mechanism diloco only"));
}

}  // namespace scenarios_test_diloco
