// A what-if is the scenario with the fields that its answer names, set as `run --set` sets them.
#include <catch2/catch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "models/hardware/attention_time.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "sim/error.hpp"
#include "tests/scenarios/random_scenarios.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_what_ifs {

using namespace trainyard;

namespace {

std::string small_plan(const std::string& more = "", const std::string& precision = "fp16") {
  return "model: {base: gpt2, n_layer: 2}\nplan: {global_batch_size: 32, micro_batch_size: 1, precision: " + precision +
         more + "}\n";
}

/// Machines, networks and sections whose fields are named in different ways.
std::vector<std::string> unlike_scenarios() {
  const std::string fabric = "cluster: {nodes: 4, node: dgx-a100, fabric: ";
  return {
      fabric + "{base: leaf-spine, levels: [{down: 2, oversubscription: 4}]}}\nsoftware: pytorch-ddp\n" + small_plan(),
      fabric + "{base: leaf-spine, levels: [{down: 2}], routing: ecmp, link_rate: 100 Gbit/s}}\n" + small_plan(),
      fabric + "torus-2d}\n" + small_plan(),
      fabric + "{base: dragonfly, switches_a_group: 2, global_rate: 50 Gbit/s}, hca: {rate: 100 Gbit/s}}\n" +
          small_plan(),
      "cluster: {nodes: [{count: 2, node: dgx-a100}, {count: 2, node: dgx-h100, gpu_speed: 0.9}], fabric: "
      "nonblocking}\nsoftware: megatron-core\n" +
          small_plan(),
      "cluster: {nodes: [{count: 2, node: dgx-a100}, {count: 2, node: dgx-h100, fabric: {base: leaf-spine, levels: "
      "[{down: 4}]}, links: {count: 2, rate: 10 Gbit/s, latency: 20 us}}], fabric: {base: leaf-spine, link_rate: 100 "
      "Gbit/s}}\n" +
          small_plan(", collectives: flows"),
      "cluster: {nodes: 2, node: t4-server, hca: {transport: tcp, copies: 2}, cpu: {copy_rate: 1 GB/s}, fabric: "
      "ethernet}\n" +
          small_plan(),
      "cluster: {node: dgx-a100, gpu: h100-sxm5-80gb}\n" + small_plan(", strategy: pytorch-ddp"),
      "cluster: {node: dgx-a100}\nfaults: {stragglers: {kind: constant, factor: 1.5, ranks: [3]}, links: [{link: "
      "\"node0/gpu0 -> node0/pcie0\", factor: 0.5}]}\n" +
          small_plan(),
      "cluster: {nodes: 2, node: tpu-v4-host}\nsoftware: plain\n" + small_plan(", tensor_parallel: 2", "bf16"),
      "cluster: {node: dgx-2}\n" +
          small_plan(", idle_devices: allowed, data_parallel: {size: 1, zero_stage: 2, offload: {optimizer: cpu}}"),
      "cluster: {node: dgx-a100, nvme: {count: 8, type: samsung-pm9a3}, host_memory: 2 TiB}\nmodel: resnet50\nplan: "
      "{global_batch_size: 128, micro_batch_size: 16, optimizer: momentum}\nsoftware: pytorch-ddp\ninput: {dataset: "
      "{samples: 100000, sample_size: 110 kB}, storage: local, decode: {workers: 8, time: 10 ms}, prefetch: 2}\n",
      "cluster: {nodes: 2, node: pcie-1, hca: {count: 1, rate: 8 Gbit/s, latency: 5 us}, fabric: nonblocking}\nmodel: "
      "{mlp: {widths: [1000, 1000, 1000]}}\nplan: {micro_batch_size: 2048, precision: fp32, optimizer: sgd, "
      "measured_step: {source: me, network: mlp, table: {1024: 5 ms, 4096: 11 ms}}}\nsoftware: horovod-tcp\n",
      R"(
cluster:
  node:
    gpu: {count: 2, type: a100-sxm4-80gb}
    interconnect: graph
    pcie: {rate: 25 GB/s, latency: 1 us}
    nvlink: {latency: 1 us}
    wires:
      - {from: gpu0, to: cpu0}
      - {from: gpu1, to: cpu0, rate: 12 GB/s}
      - {from: gpu0, to: gpu1, kind: NVLink, rate: 50 GB/s}
)" + small_plan(", data_parallel: {all_reduce: ring}"),
  };
}

/// Returns the step time with each field set by --set, as a user sets it.
double step_with(const std::string& text, const std::vector<std::string>& sets) {
  Overrides overrides;
  for (const std::string& set : sets) overrides.push_back(parse_override_option(set));
  return simulate(read_scenario_text(text, "by-hand.yaml", overrides)).step_time.value;
}

const WhatIf& row_of(const std::vector<WhatIf>& table, const std::string& resource) {
  const auto row = std::ranges::find_if(table, [&](const WhatIf& w) { return w.resource_class == resource; });
  REQUIRE(row != table.end());
  return *row;
}

/// A faster resource may make a list schedule longer (Graham 1969).
constexpr double kAnomaly = 1e-3;

void check_what_ifs(const std::string& text, std::set<std::string>& resources) {
  CAPTURE(text);
  const Scenario s = read_scenario_text(text, "by-hand.yaml");
  const double step = step_with(text, {});
  const std::vector<WhatIf> what_ifs_of_two = what_if(s), what_ifs_of_four = what_if(s, 4);
  CHECK(what_ifs_of_two.size() == resource_classes(s).size());
  for (const WhatIf& w : what_ifs_of_two) {
    CAPTURE(w.resource_class, w.sets);
    resources.insert(w.resource_class);
    CHECK_FALSE(w.sets.empty());
    CHECK(w.step_time.value == Approx(step_with(text, w.sets)).epsilon(1e-12));
    const double step_of_four = row_of(what_ifs_of_four, w.resource_class).step_time.value;
    CHECK(w.step_time.value < step * (1 + kAnomaly));
    CHECK(step_of_four < w.step_time.value * (1 + kAnomaly));
    CHECK(w.step_time.value > step / 2 * (1 - kAnomaly));
    CHECK(step_of_four > step / 4 * (1 - kAnomaly));
  }
}

}  // namespace

TEST_CASE("a what-if of every resource is the scenario with the fields that it names set", "[what-if]") {
  std::set<std::string> resources;
  for (const std::string& text : unlike_scenarios()) check_what_ifs(text, resources);
  CHECK(resources == std::set<std::string>{"compute", "memory", "measured step", "NVLink", "ICI", "PCIe", "socket",
                                           "host memory", "CPU copies", "HCA", "uplink", "latency", "framework",
                                           "storage", "decode", "storage latency", "readers", "stragglers",
                                           "slow links"});
}

TEST_CASE("a what-if of a random scenario is the scenario with the fields that it names set", "[what-if]") {
  test::RandomScenarios scenarios(36);
  std::set<std::string> resources;
  int checked = 0;
  for (int i = 0; i < 40 && checked < 8; ++i) try {
      const std::string text = scenarios.next();
      plan(read_scenario_text(text, "random.yaml"));
      check_what_ifs(text, resources);
      ++checked;
    } catch (const UserError&) {
    }
  CHECK(checked == 8);
}

TEST_CASE("a what-if makes its resource faster by the factor, and nothing else but rates that follow from it",
          "[what-if]") {
  const std::string clos = "{base: leaf-spine, levels: [{down: 3", clos_end = "}]}";
  std::string cables;
  for (int n = 0; n < 12; ++n) cables += fmt::format(", {{from: node{}/hca0, to: {}}}", n, n % 2 ? "a" : "b");
  const std::vector<std::string> fabrics{
      clos + clos_end,
      clos + ", oversubscription: 1.5}, {down: 2" + clos_end,
      clos + "}], routing: ecmp}",
      clos + "}]}, taken_out: [spine2]",
      "{type: torus, switch_latency: 1 us, dims: [4, 3]}",
      "{type: torus, switch_latency: 1 us, dims: [12], link_rate: 3 GB/s}",
      "{type: dragonfly, switch_latency: 1 us, switches_a_group: 4}",
      "{type: dragonfly, switch_latency: 1 us, switches_a_group: 4, global_rate: 3 GB/s}",
      "{type: graph, switch_latency: 1 us, switches: [a, b], links: [{from: a, to: b, rate: 7 GB/s}" + cables + "]}"};
  for (const std::string& fabric : fabrics) {
    CAPTURE(fabric);
    const Scenario s = read_scenario_text(
        "cluster: {nodes: 12, node: pcie-1, hca: {count: 1, rate: 40 Gbit/s, latency: 2 us}, fabric: " + fabric +
            "}\n" + small_plan(", idle_devices: allowed, data_parallel: {size: 8}"),
        "links.yaml");
    const DeviceGraph before = build_cluster(s.cluster);
    for (const std::string& c : resource_classes(s)) {
      CAPTURE(c);
      const ClusterSpec faster_cluster = read_again(s, faster(s, c, 2)).cluster;
      CHECK((faster_cluster.node.gpu.memory_bandwidth / s.cluster.node.gpu.memory_bandwidth == 2) == (c == "memory"));
      CHECK((faster_cluster.node.hca_latency.count * 2 == s.cluster.node.hca_latency.count) == (c == "latency"));
      const DeviceGraph after = build_cluster(faster_cluster);
      REQUIRE(after.links().size() == before.links().size());
      int wrong_rates = 0;
      for (std::size_t i = 0; i < before.links().size(); ++i) {
        const double ratio = after.links()[i].capacity / before.links()[i].capacity;
        const std::string kind = before.links()[i].kind;
        const bool follows_hca = c == "HCA" && kind == "uplink";  // unless the fabric states the rate
        wrong_rates +=
            std::abs(ratio - (kind == c ? 2 : 1)) < 1e-12 || (follows_hca && std::abs(ratio - 2) < 1e-12) ? 0 : 1;
      }
      CHECK(wrong_rates == 0);
    }
  }
}

TEST_CASE("the what-if of compute is that of twice the peak FLOP/s, and four times the peak saves more", "[what-if]") {
  const std::string text =
      "cluster: {node: dgx-a100}\nmodel: {base: gpt2-xl, n_layer: 4, n_embd: 12288, n_head: 96}\nsoftware: "
      "megatron-core\nplan: {tensor_parallel: 8, sequence_parallel: true, global_batch_size: 4, micro_batch_size: 1, "
      "precision: bf16}\n";
  const double step = step_with(text, {}), step_of_twice = step_with(text, {"cluster.node.gpu.peak.bf16=624 TFLOP/s"}),
               step_of_four = step_with(text, {"cluster.node.gpu.peak.bf16=1248 TFLOP/s"});
  const double what_if_saves =
      1 - row_of(what_if(read_scenario_text(text, "a.yaml")), "compute").step_time.value / step;
  CHECK(what_if_saves > 0.2);
  CHECK(1 - step_of_twice / step == Approx(what_if_saves).margin(1e-3));
  CHECK(1 - step_of_four / step > 1 - step_of_twice / step + 0.1);
}

TEST_CASE("the products of a fitted chip become faster in proportion to its peak", "[what-if][gemm]") {
  const Catalog catalog;
  for (const char* name : {"a100-sxm4-80gb", "h100-sxm5-80gb", "h100-pcie-80gb", "b200-sxm-180gb", "gb200", "a30"}) {
    const Node entry = catalog.resolve("gpu", Node::scalar_node(name, {}));
    const Gpu chip = read_gpu(entry);
    REQUIRE(chip.gemm.is_given);
    for (const int times : {2, 4, 16}) {
      Node faster = entry;
      for (auto& [precision, value] : faster.find("peak")->fields)
        if (const double peak = chip.peak[static_cast<std::size_t>(parse_precision(precision))].value; peak > 0)
          value = Node::scalar_node(std::to_string(peak * times * 1e-12) + " TFLOP/s", {});
      const Gpu faster_chip = read_gpu(faster);
      for (const double n : {512.0, 4096.0, 12288.0}) {
        CAPTURE(name, times, n);
        Work work{Flops{2 * n * n * n}, Bytes{2 * 3 * n * n}, kernel_of(GemmShape{n, n, n}),
                  static_cast<std::uint8_t>(Precision::bf16)};
        const double before = kernel_time(chip, work).value, after = kernel_time(faster_chip, work).value;
        CHECK(after < before);
        CHECK(after > before / times);
        // Without launches, and with so fast a memory, only arithmetic takes time.
        Gpu chip_arithmetic = chip, faster_arithmetic = faster_chip;
        for (Gpu* gpu : {&chip_arithmetic, &faster_arithmetic}) {
          gpu->memory_bandwidth = gpu->memory_bandwidth * 1e6;
          gpu->kernel_launch = gpu->gemm.split = Seconds{0};
        }
        CHECK(kernel_time(chip_arithmetic, work) / kernel_time(faster_arithmetic, work) == Approx(times).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("asynchronous workers are compared at their steady rate, however few steps the plan asks for", "[what-if]") {
  const std::string lesson =
      std::string(TRAINYARD_SOURCE_DIR) + "/scenarios/lessons/3-data-parallelism-and-servers/27-parameter-servers.yaml";
  const Scenario s = read_scenario(lesson, {{"plan.data_parallel.consistency", "asynchronous"}});
  REQUIRE(s.plan.steps == 4);
  const SimulateOptions options{.critical_path = false};
  const Scenario longer = read_again(s, {{"plan.steps", "null"}});
  const Result steady_result = simulate(longer, options);
  for (const WhatIf& w : what_if(s)) {
    CAPTURE(w.resource_class, w.sets);
    CHECK(w.sets.back() == "plan.steps=null");
    CHECK(w.compared_with.value == steady_result.step_time.value);
    constexpr double mean_error = 0.01;  // the relative error of each of the two means
    CHECK(w.saves(Seconds{}) > -2 * mean_error);
    CHECK(w.saves(Seconds{}) < 0.5 + mean_error);
  }
}

TEST_CASE("a what-if makes a measured step faster as a whole", "[what-if]") {
  const Scenario s = read_scenario(std::string(TRAINYARD_SOURCE_DIR) + "/scenarios/horovod-mnist-2xt4.yaml");
  const Overrides sets = faster(s, "measured step", 2);
  REQUIRE(sets.size() == 1);
  CHECK(sets.front().first == "plan.measured_step.table");
  CHECK(sets.front().second.starts_with("{1: 2.0891665 ms, 2: 2.6804165 ms"));
  const std::vector<std::string> classes = resource_classes(s);
  CHECK(std::ranges::count(classes, "compute") == 0);
  CHECK(read_again(s, sets).measured.step_time(256).value == Approx(17.224167e-3 / 2));
}

TEST_CASE("a change that saves nothing saves exactly nothing", "[breakdown][what-if]") {
  WhatIf w{.resource_class = "PCIe", .factor = 2, .step_time = Seconds{0.1 * 3}};
  CHECK(w.saves(Seconds{0.3}) == 0);
  w.step_time.value = 0.15;
  CHECK(w.saves(Seconds{0.3}) == Approx(0.5));
  CHECK(relative_change(0.3, 0.33) == Approx(0.1));
}

TEST_CASE("each what-if of a loop is the loop with its changes, and names what limits the loop",
          "[post-training][what-if]") {
  const auto check = [](const char* name, const Overrides& overrides, const std::set<std::string>& expected) {
    const Scenario s = read_scenario(scenario_file(name), overrides);
    const Answer all = answer(s, {.simulation = {}, .factor = 2});
    std::set<std::string> resources;
    for (const WhatIf& w : all.what_ifs) {
      CAPTURE(w.resource_class);
      resources.insert(w.resource_class);
      const Scenario changed = read_again(s, parse_overrides(w.sets));
      CHECK(simulate(changed).post_training->step_time.value == Approx(w.step_time.value).epsilon(1e-9));
    }
    CHECK(std::ranges::includes(resources, expected));
    return all;
  };
  const char* const loop = "post-training-llama3-8b-16xh100";
  const Overrides few{{"post_training.prompts", "16"}};
  const Answer colocated = check(loop, few, {"compute", "memory", "NVLink", "HCA", "loop software", "nodes"});
  CHECK(colocated.result.post_training->bottleneck != "nodes");
  Overrides split = few;
  for (const auto& [key, value] : Overrides{{"post_training.generation.nodes", "1"},
                                            {"post_training.schedule", "asynchronous"},
                                            {"post_training.staleness", "0.5"}})
    split.emplace_back(key, value);
  const Answer apart = check(loop, split, {"HCA", "nodes that generate", "nodes that train", "staleness"});
  const PostTrainingResult& r = *apart.result.post_training;
  const auto best = std::ranges::min_element(apart.what_ifs, {}, [](const WhatIf& w) { return w.step_time.value; });
  CHECK(r.bottleneck == best->resource_class);
  CHECK(answer_json(apart, false).at("what_if")[0].at("saves_share").get<double>() ==
        Approx(1 - apart.what_ifs[0].step_time / r.step_time));
  Overrides tools = few;
  tools.emplace_back("post_training.tools", "{calls: 2, wait: 3 s, sandboxes: 16}");
  const Answer limited = check(loop, tools, {"sandboxes", "calls of tools", "compute"});
  CHECK(limited.result.post_training->bottleneck == "calls of tools");
  for (const WhatIf& w : limited.what_ifs)
    if (w.resource_class == "sandboxes") CHECK(w.saves(limited.result.post_training->step_time) > 0.3);
  const Scenario tooled_loop = read_scenario(scenario_file(loop), tools);
  const auto screen_of = [&tooled_loop](const Answer& a) {  // with one blank in place of each line break
    std::string text;
    for (const char c : post_training_screen(tooled_loop, a.result, a.what_ifs))
      if (const char printed = c == '\n' ? ' ' : c; printed != ' ' || !text.ends_with(' ')) text += printed;
    return text;
  };
  // 31 sandboxes leave one to one of the 16 engines, and 62 are three or four for each.
  tools.back().second = "{calls: 2, wait: 3 s, sandboxes: 31}";
  const Answer few_sandboxes = check(loop, tools, {"sandboxes", "calls of tools"});
  CHECK(few_sandboxes.result.post_training->bottleneck == "sandboxes");
  CHECK_THAT(screen_of(few_sandboxes), Catch::Matchers::Contains("bottleneck the number of sandboxes, by the what-if"));
  CHECK_THAT(screen_of(limited), Catch::Matchers::Contains("bottleneck calls of tools, by the what-if"));
  for (const Answer* tooled : {&limited, &few_sandboxes})
    for (const WhatIf& w : tooled->what_ifs)
      if (w.resource_class == "calls of tools") {
        const double saves = w.saves(tooled->result.post_training->step_time);
        CHECK(saves > 0.3);
        CHECK_THAT(screen_of(*tooled),
                   Catch::Matchers::Contains("1/2 of the time of calls of tools saves " + percent(saves)) ||
                       Catch::Matchers::Contains("1/2 of the time of calls of tools " + percent(saves)));
      }
  check("post-training-dpo-llama3-8b-8xh100", {{"post_training.prompts", "16"}}, {"compute", "memory", "nodes"});
}

TEST_CASE("each what-if of engines that answer prompts is these engines with its changes", "[post-training][what-if]") {
  const Scenario s = read_scenario(scenario_file("generation-llama3-70b-2xh100"), {{"generation.requests", "64"}});
  const Answer all = answer(s, {.simulation = {}, .factor = 2});
  std::set<std::string> resources;
  for (const WhatIf& w : all.what_ifs) {
    CAPTURE(w.resource_class);
    resources.insert(w.resource_class);
    CHECK(w.step_time < all.result.main_time());
    const Result changed = simulate(read_again(s, parse_overrides(w.sets)));
    CHECK(changed.generation->engines.generation.value == Approx(w.step_time.value).epsilon(1e-9));
  }
  CHECK(std::ranges::includes(resources, std::set<std::string>{"NVLink", "compute", "memory"}));
}

}  // namespace scenarios_test_what_ifs
