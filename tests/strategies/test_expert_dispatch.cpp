#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "models/networks/layers/expert_routing.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "strategies/collectives/dispatcher_model.hpp"
#include "strategies/collectives/library_model.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tests/places.hpp"

namespace strategies_test_expert_dispatch {

using namespace trainyard;

namespace {

constexpr ExpertRouting kDeepSeekV3{256, 8, 8, 4};

Scenario scenario_of(const std::string& expert_parallel, const std::string& more = "") {
  return read_scenario_text(
      "cluster: {nodes: 2, node: dgx-h100, fabric: rail-optimized}\n"
      "model: {base: mixtral-8x7b, num_hidden_layers: 8}\n"
      "plan: {global_batch_size: 64, micro_batch_size: 1, seq_length: 2048, precision: bf16, "
      "expert_parallel: " +
          expert_parallel + more +
          "}\n"
          "software: megatron-core\n",
      "experts.yaml");
}

}  // namespace

TEST_CASE("a token's experts are on the expected number of ranks", "[experts]") {
  CHECK(parts_of_token({8, 2}, 1) == Approx(1).epsilon(1e-12));
  CHECK(parts_of_token({8, 2}, 8) == Approx(2).epsilon(1e-12));
  CHECK(parts_of_token({8, 2}, 4) == Approx(4 * (1 - 15.0 / 28)).epsilon(1e-12));
  // A token chooses two of four groups. In 2 of 6 choices both groups are in one half. In the others both experts are
  // in one group, and thus in one half, in 2 of 6 cases.
  CHECK(parts_of_token({8, 2, 4, 2}, 2) == Approx((2 * 1 + 4 * (5.0 / 3)) / 6).epsilon(1e-12));
  CHECK(parts_of_token({8, 2, 4, 2}, 8) == Approx(2).epsilon(1e-12));
  // Experts are never on more nodes than there are chosen groups.
  CHECK(parts_of_token(kDeepSeekV3, 8) < 4);
  CHECK(parts_of_token({256, 8}, 8) > 5);
}

TEST_CASE("a dispatcher reaches the bandwidths of its published table", "[experts]") {
  ClusterSpec cluster = read_scenario_text(
                            "cluster: {nodes: 8, node: hgx-h800, fabric: rail-optimized}\nmodel: deepseek-v3\n"
                            "plan: {global_batch_size: 64, micro_batch_size: 1, seq_length: 4096, precision: bf16}\n",
                            "h800.yaml")
                            .cluster;
  const ExpertDispatcher deepep = read_expert_dispatcher(Catalog(), Node::scalar_node("deepep"));
  const auto model = dispatcher_model(deepep, kDeepSeekV3, cluster, library_model(cluster).model, test::nowhere());
  const Bytes row{7168.0 * 4096};
  const auto seconds = [&](int nodes) {
    const NodeSpread spread{8 * nodes, nodes, 8};
    const ModelledCost cost = model->cost(Operation::all_to_all, row * parts_of_token(kDeepSeekV3, 8 * nodes), spread);
    return (cost.wire / cost.rate).value;
  };
  // "Bottleneck bandwidth": of rows to nodes, or inside one node of rows to ranks. Rows to the sender's own node count.
  const auto between = [&](int nodes) { return row.value * parts_of_token(kDeepSeekV3, nodes) / seconds(nodes) / 1e9; };
  CHECK(between(8) == Approx(50.5).epsilon(0.02));
  CHECK(between(4) == Approx(57.5).epsilon(0.02));
  CHECK(row.value * parts_of_token(kDeepSeekV3, 8) / seconds(1) / 1e9 == Approx(155.5).epsilon(0.02));
}

TEST_CASE("a dispatcher sends over NVLink as fast as its SMs copy, or as the link allows", "[experts]") {
  const auto inside = [](const std::string& name, const std::string& node) {
    const ClusterSpec cluster =
        read_scenario_text(
            "cluster: {nodes: 1, node: " + node +
                "}\nmodel: deepseek-v3\n"
                "plan: {global_batch_size: 64, micro_batch_size: 1, seq_length: 4096, precision: bf16}\n",
            "one.yaml")
            .cluster;
    const auto model = dispatcher_model(read_expert_dispatcher(Catalog(), Node::scalar_node(name)), kDeepSeekV3,
                                        cluster, library_model(cluster).model, test::nowhere());
    const Bytes sent{1e9};
    const ModelledCost cost = model->cost(Operation::all_to_all, sent, {8, 1, 8});
    return (cost.wire * (7.0 / 8) / (cost.wire / cost.rate)).value * 1e-9;
  };
  CHECK(inside("deepep", "dgx-h100") == Approx(0.68 * 450).epsilon(1e-9));   // the link
  CHECK(inside("deepep", "dgx-b200") == Approx(20 * 15.7).epsilon(1e-9));    // 20 SMs: 285 to 341 GB/s were measured
  CHECK(inside("hybridep", "dgx-b200") == Approx(16 * 37.5).epsilon(1e-9));  // 524 to 643 GB/s were measured
}

TEST_CASE("a dispatched row goes to a node once, and from there to the ranks of the node", "[experts]") {
  // Without sequence parallelism the experts are only distributed over the data ranks, which are on both nodes.
  const Scenario s = scenario_of("{size: 8, dispatcher: deepep}", ", tensor_parallel: 2, sequence_parallel: false");
  const Plan step_plan = plan(s);
  const LaneGroup& group = step_plan.training.lane(Lane::expert).groups.front();
  const ModelledFlow& flow = *group.settings.flow;
  REQUIRE(group.settings.spread(8).nodes == 2);
  double across = 0, inside = 0;
  for (const GroupFlow::Edge& edge : flow.edges) {
    if (edge.from != group.members.front()) continue;
    (edge.to / 8 == edge.from / 8 ? inside : across) += static_cast<double>(edge.weight) / flow.ways;
  }
  const double ranks = parts_of_token({8, 2}, 8), nodes = parts_of_token({8, 2}, 2);
  CHECK(inside == Approx(3.0 / 4).epsilon(1e-3));
  CHECK(across == Approx(nodes / ranks / 2).epsilon(1e-3));
  const Layer& layer = step_plan.training.network->layers[1];
  const auto sent = std::find_if(layer.forward_exchanges.begin(), layer.forward_exchanges.end(),
                                 [](const Exchange& exchange) { return exchange.name == "experts.dispatch"; });
  REQUIRE(sent != layer.forward_exchanges.end());
  CHECK(sent->bytes.value == Approx(2048.0 * 4096 * 2 * ranks).epsilon(1e-9));
}

TEST_CASE("passes that alternate hide exchanges, and slow kernels a little", "[experts]") {
  const auto run = [](const std::string& overlap) {
    return simulate(scenario_of("{size: 8, overlap: " + overlap + "}", ", tensor_parallel: 2"));
  };
  const Result separate = run("false"), alternating = run("true");
  CHECK(alternating.step_time.value < 0.97 * separate.step_time.value);
  CHECK(alternating.breakdown.compute.value == Approx(separate.breakdown.compute.value).epsilon(0.02));
  CHECK(alternating.step_time.value > separate.breakdown.compute.value);
}

TEST_CASE("passes that alternate hide as much of the experts' exchanges beside tensor parallelism", "[experts]") {
  const auto exposed_part = [](const std::string& tensor) {
    const auto exposed = [&tensor](const std::string& overlap) {
      return simulate(read_scenario_text(
                          "cluster: {nodes: 2, node: dgx-h100, fabric: nonblocking}\nmodel: {base: qwen3-235b-a22b, "
                          "num_hidden_layers: 4}\nsoftware: nemo\n"
                          "plan: {global_batch_size: 128, micro_batch_size: 1, seq_length: 4096, "
                          "precision: bf16, tensor_parallel: " +
                              tensor + ", expert_parallel: {size: 16, overlap: " + overlap + "}}\n",
                          "experts.yaml"))
          .breakdown.exposed_communication.at("expert parallel");
    };
    return exposed("true") / exposed("false");
  };
  const double exposed_without_tensor = exposed_part("1");
  CHECK(exposed_without_tensor < 0.6);
  CHECK(exposed_part("2") < exposed_without_tensor + 0.1);
}

TEST_CASE("one stage has no schedule, and pairs the passes of all its micro-batches", "[experts]") {
  const Plan paired = plan(scenario_of("{size: 8, overlap: true}"));
  CHECK(paired.training.schedule == nullptr);
  CHECK(paired.training.micro_batches == 4);
  const std::vector<PipelineTask>& tasks = paired.training.stages.front().tasks;
  CHECK(std::count_if(tasks.begin(), tasks.end(), [](const PipelineTask& task) { return task.beside_next; }) == 3);
}

TEST_CASE("wrong values of experts' keys are refused at their place", "[experts]") {
  CHECK_THROWS_WITH(scenario_of("{size: 8, fp8_dispatch: true}"),
                    Catch::Contains("experts.yaml:3") && Catch::Contains("expected a dispatcher, such as deepep"));
  CHECK_THROWS_WITH(scenario_of("{size: 8, dispatcher: deepap}"), Catch::Contains("deepep"));
  CHECK_THROWS_WITH(plan(scenario_of("{size: 8, dispatcher: deepep}", ", collectives: flows")),
                    Catch::Contains("expected plan.collectives: modelled"));
  CHECK_THROWS_WITH(scenario_of("{size: 8, overlap: true}", ", data_parallel: {zero_stage: 3}"),
                    Catch::Contains("not with ZeRO stage 3"));
}

TEST_CASE("wrong values of recomputation and adapters are refused at their place", "[experts][lora]") {
  CHECK_THROWS_WITH(scenario_of("8", ", recompute_modules: [moe_akt]"),
                    Catch::Contains("experts.yaml:3") && Catch::Contains("did you mean \"moe_act\"?"));
  for (const char* part : {"mla_up_proj", "mlp"})  // Mixtral has neither latent attention nor dense feed-forward parts
    CHECK_THROWS_WITH(read_scenario(shipped_file("scenarios/mixtral-ep8.yaml"),
                                    {{"plan.recompute_modules", fmt::format("[{}]", part)}}),
                      Catch::Contains(fmt::format("has the part {}; expected layernorm, moe_act, moe", part)));
  CHECK_THROWS_WITH(scenario_of("8", ", lora: {rank: 0}"), Catch::Contains("plan.lora.rank"));
  CHECK_THROWS_WITH(scenario_of("8", ", lora: {rank: 8, targets: [linear_fc3]}"),
                    Catch::Contains("unknown value \"linear_fc3\"") && Catch::Contains("linear_fc1"));
  CHECK_THROWS_WITH(
      read_scenario_text("cluster: {nodes: 1, node: dgx-h100}\nmodel: resnet50\n"
                         "plan: {global_batch_size: 64, micro_batch_size: 8, lora: {rank: 8}}\n",
                         "resnet.yaml"),
      Catch::Contains("resnet.yaml:3") && Catch::Contains("linear layers of a transformer have adapters"));
}

TEST_CASE("frozen parameters are gathered with stage 3 of ZeRO, and have no gradient to scatter", "[lora]") {
  const auto run = [](const std::string& lora) {
    return simulate(
        read_scenario_text("cluster: {nodes: 1, node: dgx-h100}\nmodel: {base: llama-2-7b, num_hidden_layers: 8}\n"
                           "plan: {global_batch_size: 8, micro_batch_size: 1, seq_length: 2048, precision: bf16, "
                           "data_parallel: {zero_stage: 3}" +
                               lora + "}\n",
                           "fsdp.yaml"));
  };
  const Result full_training = run(""), adapted = run(", lora: {rank: 16}"),
               narrow = run(", lora: {rank: 16, base: nf4}");
  CHECK(adapted.step_time.value < full_training.step_time.value);
  CHECK(adapted.memory.parameters.value == Approx(full_training.memory.parameters.value).epsilon(0.02));
  CHECK(adapted.memory.optimizer.value < 0.05 * full_training.memory.optimizer.value);
  CHECK(adapted.bytes_sent_per_rank_max.value >
        0.6 * full_training.bytes_sent_per_rank_max.value);  // two gathers, a tiny scatter
  CHECK(adapted.bytes_sent_per_rank_max.value < 0.7 * full_training.bytes_sent_per_rank_max.value);
  CHECK(narrow.memory.parameters.value < 0.6 * adapted.memory.parameters.value);
}

TEST_CASE("parts of blocks can be recomputed with plain data parallelism too", "[memory]") {
  const auto activations = [](const std::string& more) {
    return simulate(read_scenario_text(
                        "cluster: {nodes: 1, node: dgx-h100}\nmodel: {base: llama-3-8b, num_hidden_layers: 2}\n"
                        "plan: {global_batch_size: 8, micro_batch_size: 1, seq_length: 2048, precision: bf16" +
                            more + "}\nsoftware: megatron-core\n",
                        "modules.yaml"))
        .memory.activations.value;
  };
  // A block has two norms, whose outputs are stored for the next linear layer: 2048 x 4096 of 2 bytes each.
  CHECK(activations("") - activations(", recompute_modules: [layernorm]") > 3 * 2048 * 4096 * 2.0);
}

}  // namespace strategies_test_expert_dispatch
