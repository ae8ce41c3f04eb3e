// Devices of the cluster without work: a plan that leaves some is refused, or allows them.
#include <array>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/fitted/measured_family.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "sim/json_text.hpp"
#include "tools/reports/report.hpp"
#include "tools/serving/served_task.hpp"
#include "tools/serving/what_if_page.hpp"

namespace scenarios_test_idle_devices {

using namespace trainyard;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

Scenario idle_scenario(const std::string& plan, const std::string& cluster = "nodes: 2, node: pcie-4") {
  return read_scenario_text("cluster: {" + cluster +
                                ", hca: {count: 1, rate: 10 Gbit/s, latency: 1 us}, cpu: xeon-e5-2698-v4, fabric: "
                                "nonblocking}\nmodel: {mlp: {widths: [64, 64]}}\n"
                                "plan: {micro_batch_size: 1, precision: fp32, optimizer: sgd, " +
                                plan + "}\n",
                            "idle.yaml");
}

}  // namespace

TEST_CASE("devices without work are refused unless the plan allows them", "[idle]") {
  CHECK_NOTHROW(idle_scenario("data_parallel: 8"));
  CHECK_THROWS_WITH(idle_scenario("data_parallel: 6"),
                    Contains("plan.data_parallel: 6 ranks leave 2 of the cluster's 8 devices idle; expected size 8, "
                             "fewer nodes, or plan.idle_devices: allowed"));
  const Scenario allowed = idle_scenario("data_parallel: 6, idle_devices: allowed");
  CHECK(idle_devices(allowed.plan, allowed.cluster) == 2);
  CHECK_THROWS_WITH(idle_scenario("data_parallel: 6, idle_devices: maybe"), Contains("allowed"));
  const std::string text = screen(allowed, plan(allowed), simulate(allowed), {});
  CHECK_THAT(text, Contains("idle       2 of 8 GPUs have no work"));
  const Scenario full = idle_scenario("data_parallel: 8");
  CHECK_THAT(screen(full, plan(full), simulate(full), {}), !Contains("\nidle "));
}

TEST_CASE("the JSON of an answer has the devices without work", "[idle]") {
  const auto json_of = [](const Scenario& s) {
    nlohmann::ordered_json j = nlohmann::ordered_json::object();
    result_fields().write(simulate(s), j);
    return j;
  };
  const Scenario idle = idle_scenario("data_parallel: 6, idle_devices: allowed");
  CHECK(json_of(idle)["idle_devices"] == 2);
  CHECK_FALSE(json_of(idle_scenario("data_parallel: 8")).contains("idle_devices"));
}

TEST_CASE("plans that a search finds leave no device idle", "[idle][search]") {
  for (const int nodes : {1, 3}) {
    PlanAnswerOptions options;
    options.neighbours = options.rule = false;
    options.search.work = 1e5;
    // The scenario's own plan would leave devices idle.
    const PlanQuestion question = read_plan_question(
        parse_document("cluster: {node: dgx-a100, nodes: " + std::to_string(nodes) +
                           ", fabric: nonblocking}\nmodel: {base: gpt2, n_layer: 2}\nsoftware: megatron-core\n"
                           "plan: {global_batch_size: 24, micro_batch_size: 1, seq_length: 64, data_parallel: 4, "
                           "idle_devices: allowed}\n",
                       "idle.yaml"),
        "idle");
    const PlanAnswer answer = answer_plan(question, options);
    REQUIRE(answer.search.best());
    CHECK_FALSE(answer.own);
    const Scenario best = read_scenario(answer.document, "best");
    CHECK(best.ranks() == 8 * nodes);
    CHECK(idle_devices(best.plan, best.cluster) == 0);
  }
}

TEST_CASE("nodes that only have servers are not idle", "[idle]") {
  const auto servers = [](const std::string& more) {
    return idle_scenario("data_parallel: {mechanism: parameter-server, " + more + "}");
  };
  const Scenario dedicated = servers("servers: {count: 1, place: dedicated}");
  CHECK(dedicated.ranks() == 4);
  CHECK(idle_devices(dedicated.plan, dedicated.cluster) == 0);
  CHECK_THROWS_WITH(servers("servers: {count: 1, place: dedicated}, size: 3"), Contains("leave 1 of the cluster's 8"));
  // A server beside workers needs no node of its own.
  CHECK_THROWS_WITH(servers("servers: 1, size: 4"), Contains("leave 4 of the cluster's 8"));
}

TEST_CASE("a shipped scenario keeps all its devices busy, or says that it does not", "[idle]") {
  for (const auto& file : shipped_yaml_files("scenarios")) {
    CAPTURE(file);
    const Scenario s = read_scenario(file);
    const Node* value = s.document.find("plan")->find("idle_devices");
    CHECK((idle_devices(s.plan, s.cluster) == 0 || value));
  }
  CHECK_THROWS_WITH(read_scenario(shipped_file("scenarios/gpt3-175b-1024xa100.yaml"), {{"cluster.nodes", "256"}}),
                    Contains("1024 ranks leave 1024 of the cluster's 2048 devices idle; expected size 32"));
}

TEST_CASE(
    "on the what-if page the replicas follow the number of nodes, and the controls show the rates of the node type",
    "[idle][serve]") {
  const ServedScenarios scenarios{{"gpt3", shipped_file("scenarios/gpt3-175b-1024xa100.yaml")}};
  const auto ask = [&](const std::vector<std::array<std::string, 2>>& set) {
    return parse_json(
        answer_request(scenarios, {}, json{{"scenario", "gpt3"}, {"set", set}, {"want", "answer"}}.dump()));
  };
  const auto value = [](const json& answer, const std::string& path) -> std::string {
    for (const json& control : answer["controls"])
      if (control["path"] == path) return control["value"];
    return "not there";
  };
  const json begin = ask({});
  const json twice = ask({{{"cluster.nodes", "256"}}, {{"plan.global_batch_size", "3072"}}});
  INFO(twice.value("error", ""));
  REQUIRE(twice.contains("answer"));
  CHECK(twice["answer"]["fold"]["ranks"] == 2 * begin["answer"]["fold"]["ranks"].get<int>());
  CHECK(twice["answer"]["step_time_s"].get<double>() < 1.2 * begin["answer"]["step_time_s"].get<double>());
  // The controls show the rates of the new node type.
  CHECK(value(begin, "cluster.hca.rate") == "200 Gbit/s");
  const json h100 = ask({{{"cluster.node", "dgx-h100"}}});
  CHECK(value(h100, "cluster.hca.rate") == "400 Gbit/s");
  CHECK(value(h100, "cluster.gpu.nvlink") == "450 GB/s");
}

}  // namespace scenarios_test_idle_devices
