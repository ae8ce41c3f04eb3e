// Experts with tensor ranks of their own: the axes expert x expert-tensor span all ranks of a stage (folding in
// Megatron-Core).
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/search/plan_space.hpp"
#include "scenarios/src/studies/fold_check.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tests/models/transformer_configs.hpp"

namespace strategies_test_expert_tensor {

using namespace trainyard;

namespace {

constexpr std::int64_t kSeq = 512, kSamples = 4;
constexpr double kTokens = kSamples * kSeq, kHidden = 512, kElement = 2;
const char* const kSharedExperts = R"({model_type: qwen2_moe, vocab_size: 4096, num_hidden_layers: 1, hidden_size: 512,
  num_attention_heads: 8, num_key_value_heads: 8, intermediate_size: 1024, max_position_embeddings: 2048,
  num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 256, shared_expert_intermediate_size: 512})";

Layer expert_layer(const Sharding& sharding) {
  TransformerOptions options;
  options.sharding = sharding;
  return transformer_network(parsed_config(kSharedExperts), kSamples, kSeq, Precision::bf16, options).layers[1];
}

/// Names of the exchanges, except those of attention.
std::vector<std::string> exchanges_of(const std::vector<Exchange>& all) {
  std::vector<std::string> names;
  for (const Exchange& e : all)
    if (!e.name.starts_with("attention")) names.push_back(e.name);
  return names;
}
double bytes_of(const Layer& layer, const std::string& name) {
  for (const std::vector<Exchange>* all : {&layer.forward_exchanges, &layer.backward_exchanges})
    for (const Exchange& e : *all)
      if (e.name == name) return e.bytes.value;
  FAIL("no exchange " + name);
  return 0;
}
double expert_elements(const Layer& layer) {
  return std::accumulate(layer.parameters.begin(), layer.parameters.end(), 0.0,
                         [](double sum, const ParameterTensor& t) { return sum + (t.expert ? t.elements : 0); });
}

/// Mixtral on two nodes of eight H100.
Scenario mixtral(const std::string& plan) {
  return read_scenario_text(
      "cluster: {nodes: 2, node: dgx-h100, fabric: rail-optimized}\n"
      "model: {base: mixtral-8x7b, num_hidden_layers: 4}\nsoftware: megatron-core\n"
      "plan: {global_batch_size: 64, micro_batch_size: 1, seq_length: 2048, precision: bf16, " +
          plan + "}\n",
      "folded.yaml");
}

}  // namespace

TEST_CASE("experts lie over all ranks of a stage, in the mesh's order", "[expert-tensor]") {
  Mesh mesh;
  mesh.tensor = 2;
  mesh.context = 2;
  mesh.data = 2;
  mesh.pipeline = 2;
  mesh.expert = 2;
  mesh.expert_tensor = 2;
  CHECK(mesh.group(5, Axis::expert_tensor) == std::vector<int>{4, 5});
  CHECK(mesh.group(5, Axis::expert) == std::vector<int>{5, 7});
  CHECK(mesh.expert_replicas(5) == std::vector<int>{1, 5});
  CHECK(mesh.group(13, Axis::expert) == std::vector<int>{13, 15});  // ranks of the second stage
  CHECK(mesh.in_words() == "tensor 2 x context 2 x data 2 x pipeline 2, expert parallel 2, expert tensor parallel 2");
  CHECK(mesh.in_words("ring").starts_with("tensor 2 x context 2 (ring) x data 2 x pipeline 2,"));
  mesh.order = {Axis::pipeline, Axis::data, Axis::tensor, Axis::context};
  CHECK(mesh.group(0, Axis::expert_tensor) == std::vector<int>{0, 2});
  CHECK(mesh.group(0, Axis::expert) == std::vector<int>{0, 4});
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    for (const std::vector<int>& group :
         {mesh.group(rank, Axis::expert), mesh.group(rank, Axis::expert_tensor), mesh.expert_replicas(rank)}) {
      CHECK(group.size() == 2);
      CHECK(std::count(group.begin(), group.end(), rank) == 1);
    }
  for (const int tensor : {1, 2, 4}) {  // a size equal to the tensor axis gives the same groups as no size
    Mesh by_default;
    by_default.tensor = tensor;
    by_default.data = 8;
    by_default.expert = 4;
    Mesh stated = by_default;
    stated.expert_tensor = tensor;
    for (int rank = 0; rank < by_default.ranks(); ++rank) {
      for (const Axis axis : {Axis::expert, Axis::expert_tensor})
        CHECK(stated.group(rank, axis) == by_default.group(rank, axis));
      CHECK(stated.expert_replicas(rank) == by_default.expert_replicas(rank));
      CHECK(stated.expert_of(rank) == by_default.expert_of(rank));
      CHECK(stated.expert_tensor_of(rank) == by_default.expert_tensor_of(rank));
    }
  }
}

TEST_CASE("a rank sends its own tokens, and gathers those of an expert's ranks", "[expert-tensor]") {
  const Layer unsplit = expert_layer({}), by_default = expert_layer({{.tensor = 2, .expert = 4}, {.sequence = true}});
  const Layer split_experts = expert_layer({{.tensor = 2, .expert = 4, .expert_tensor = 2}, {.sequence = true}});
  const Layer whole_experts = expert_layer({{.tensor = 2, .expert = 8, .expert_tensor = 1}, {.sequence = true}});
  CHECK(exchanges_of(split_experts.forward_exchanges) ==
        std::vector<std::string>{"experts.dispatch", "experts.gather", "experts.scatter", "experts.return",
                                 "mlp.gather", "mlp.scatter"});  // the last two belong to shared experts
  CHECK(exchanges_of(split_experts.backward_exchanges) ==
        std::vector<std::string>{"mlp.scatter.backward", "mlp.regather", "mlp.gather.backward",
                                 "experts.return.backward", "experts.scatter.backward", "experts.gather.backward",
                                 "experts.dispatch.backward"});
  CHECK(exchanges_of(whole_experts.forward_exchanges) ==
        std::vector<std::string>{"experts.dispatch", "experts.return", "mlp.gather", "mlp.scatter"});
  const double rows = kTokens / 2 * 2 * kHidden * kElement;  // half of the tokens, two experts each
  for (const char* name : {"experts.dispatch", "experts.return", "experts.dispatch.backward"}) {
    CHECK(bytes_of(split_experts, name) == rows);
    CHECK(bytes_of(whole_experts, name) == rows);
    CHECK(bytes_of(by_default, name) == 2 * rows);
  }
  for (const char* name : {"experts.gather", "experts.scatter", "experts.gather.backward", "experts.scatter.backward"})
    CHECK(bytes_of(split_experts, name) == 2 * rows);
  for (const char* kernel : {"experts.gate", "experts.down", "shared.gate"})
    for (const Layer* layer : {&split_experts, &whole_experts, &by_default})
      CHECK(work_of((*layer).forward, kernel).flops.value == work_of(unsplit.forward, kernel).flops.value / 2);
  CHECK(work_of(split_experts.forward, "router").flops.value == work_of(unsplit.forward, "router").flops.value / 2);
  CHECK(expert_elements(unsplit) == 8.0 * 3 * 512 * 256);
  for (const Layer* layer : {&split_experts, &whole_experts, &by_default})
    CHECK(expert_elements(*layer) == expert_elements(unsplit) / 8);
  CHECK(expert_elements(expert_layer({{.expert = 2, .expert_tensor = 4}, {}})) == expert_elements(unsplit) / 8);
  for (const ParameterTensor& t : split_experts.parameters)
    if (t.name.starts_with("router")) CHECK(t.partial);  // its gradient is summed over ranks with other tokens
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    TransformerOptions options;
    options.sharding = {{.tensor = 2, .expert = 2, .expert_tensor = 4}, {.sequence = true, .recompute = recompute}};
    CHECK(gradients_are_ready_once(
        transformer_network(parsed_config(kSharedExperts), kSamples, kSeq, Precision::bf16, options)));
  }
}

TEST_CASE("behind masks each expert computes its capacity, and products with masks bring rows there and back",
          "[expert-tensor]") {
  const Sharding masks{{}, {.expert_capacity = 1.25, .expert_masks = true}};
  CHECK(rows_within_capacity(masks) == 1.25);
  CHECK(rows_within_capacity({{.expert = 4}, {.expert_imbalance = 3, .expert_capacity = 1.25, .expert_masks = true}}) ==
        1.25);
  const Layer masked = expert_layer(masks), plain = expert_layer({});
  CHECK(work_of(masked.forward, "experts.gate").flops.value ==
        1.25 * work_of(plain.forward, "experts.gate").flops.value);
  const double mask = kSeq * (kSeq * 2 * 1.25);  // of one sample: its tokens times the rows of all experts, two a token
  for (const char* product : {"permute", "combine"})
    CHECK(work_of(masked.forward, product).flops.value == kSamples * 2 * mask * kHidden);
  for (const char* product : {"permute.dgrad", "combine.dgrad", "combine.weights"})
    CHECK(work_of(masked.backward, product).flops.value == kSamples * 2 * mask * kHidden);
  CHECK(work_of(masked.forward, "router.masks").bytes.value == kSamples * mask * kElement);
  TransformerOptions options;
  options.sharding = masks;
  CHECK(gradients_are_ready_once(
      transformer_network(parsed_config(kSharedExperts), kSamples, kSeq, Precision::bf16, options)));
  CHECK(mixtral("expert_parallel: {size: 8, capacity: 1.25, masks: true}").plan.sharding.expert_masks);
  CHECK_THROWS_WITH(plan(mixtral("expert_parallel: {size: 8, masks: true}")),
                    Catch::Contains("folded.yaml:4") && Catch::Contains("expected capacity too"));
}

TEST_CASE("impossible expert-tensor ranks are refused at their place", "[expert-tensor]") {
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(
      plan(mixtral("tensor_parallel: 2, expert_parallel: {size: 8, tensor: 1}, sequence_parallel: false")),
      Contains("folded.yaml:4") && Contains("set plan.sequence_parallel: true"));
  CHECK_THROWS_WITH(plan(mixtral("expert_parallel: {size: 8, tensor: 3}")),
                    Contains("plan.expert_parallel: 8 x tensor 3 = 24 ranks do not divide tensor 1 x context 1 x data "
                             "16 = 16") &&
                        Contains("nearest: tensor 2"));
  CHECK_THROWS_WITH(plan(mixtral("expert_parallel: {size: 4, tensor: 2, dispatcher: deepep}")),
                    Contains("with dispatcher deepep") && Contains("expected 1, or dispatcher: all-to-all"));
  CHECK_THROWS_WITH(plan(mixtral("expert_parallel: {size: 8, capacity: 1, dispatcher: deepep}")),
                    Contains("folded.yaml:4") && Contains("deepep sends every token; expected dispatcher: all-to-all"));
  CHECK_THROWS_WITH(plan(mixtral("expert_parallel: {size: 4, tenser: 2}")), Contains("did you mean \"tensor\"?"));
  CHECK_THROWS_WITH(expert_layer({{.expert_tensor = 3}, {}}),
                    Contains("expert-tensor parallelism over 3 ranks: they must divide the 256 columns of an expert"));
  CHECK_THROWS_WITH(expert_layer({{.tensor = 2, .expert_tensor = 2}, {}}), Contains("expected sequence parallelism"));
  CHECK_THROWS_WITH(
      plan(read_scenario_text("cluster: {nodes: 1, node: dgx-h100}\nmodel: llama-3-8b\nplan: {global_batch_size: 8, "
                              "micro_batch_size: 1, expert_parallel: {tensor: 2}}\n",
                              "dense.yaml")),
      Contains("has no experts to split"));
  CHECK_NOTHROW(
      plan(mixtral("expert_parallel: {size: 8, tensor: 1, dispatcher: deepep}, tensor_parallel: 2, "
                   "sequence_parallel: true")));
}

TEST_CASE("memory and gradients of experts follow their own ranks", "[expert-tensor]") {
  const auto plan_with = [](const std::string& experts) {
    return plan(mixtral("tensor_parallel: 4, sequence_parallel: true, expert_parallel: " + experts +
                        ", data_parallel: {zero_stage: 1}"));
  };
  const Plan by_default = plan_with("4"), whole_experts = plan_with("{size: 8, tensor: 1}"),
             split_experts = plan_with("{size: 2, tensor: 8}");
  const auto elements = [](const Plan& p) {
    double sum = 0;
    for (const Layer& layer : p.training.network->layers) sum += expert_elements(layer);
    return sum;
  };
  const double all = 4 * 8 * 3.0 * 4096 * 14336;  // layers x experts x matrices
  CHECK(elements(by_default) == all / 16);
  CHECK(elements(whole_experts) == all / 8);
  CHECK(elements(split_experts) == all / 16);
  CHECK(whole_experts.training.lane(Lane::expert_gradients).groups.front().members == std::vector<int>{0, 8});
  CHECK(whole_experts.training.lane(Lane::expert).groups.front().members == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(!whole_experts.training.lane(Lane::expert_tensor).is_used());
  CHECK(!split_experts.training.lane(Lane::expert_gradients).is_used());  // each part of an expert is on one rank only
  CHECK(split_experts.training.lane(Lane::expert_tensor).groups.front().members ==
        std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(split_experts.training.lane(Lane::expert).groups.front().members == std::vector<int>{0, 8});
  const auto states = [](const Plan& p) { return p.training.stages.front().memory; };
  // Parameters have 2 B, gradients 4 B, states and master weights 12 B, which are sharded over replicas.
  const double extra_elements = elements(whole_experts) - elements(by_default);
  CHECK(states(whole_experts).parameters.value - states(by_default).parameters.value ==
        Approx(2 * extra_elements).epsilon(1e-9));
  CHECK(states(whole_experts).gradients.value - states(by_default).gradients.value ==
        Approx(4 * extra_elements).epsilon(1e-9));
  CHECK(states(whole_experts).optimizer.value == Approx(states(by_default).optimizer.value).epsilon(1e-9));
}

TEST_CASE("plans with expert-tensor ranks fold to the answer of all ranks", "[expert-tensor][folding]") {
  for (const char* text :
       {"tensor_parallel: 2, sequence_parallel: true, expert_parallel: {size: 8, tensor: 1}",
        "tensor_parallel: 4, sequence_parallel: true, expert_parallel: {size: 4, tensor: 2}, data_parallel: "
        "{zero_stage: 1}",
        "expert_parallel: {size: 4, tensor: 2}, pipeline_parallel: 2, collectives: messages",
        "tensor_parallel: 2, sequence_parallel: true, expert_parallel: {size: 2, tensor: 4}, pipeline_parallel: 2, "
        "pipeline: {schedule: interleaved-1f1b, chunks: 2}"}) {
    CAPTURE(text);
    const Scenario s = mixtral(text);
    const FoldCheck check = check_folding(s, plan(s));
    CHECK(check.difference == "");
    CHECK(check.good());
  }
}

TEST_CASE("a search tries whole experts over all ranks of a stage", "[expert-tensor][search]") {
  const char* const text =
      "cluster: {nodes: 1, node: dgx-h100}\nmodel: {base: mixtral-8x7b, num_hidden_layers: 4}\n"
      "software: megatron-core\nplan: {global_batch_size: 8, seq_length: 2048, precision: bf16}\n";
  const PlanQuestion question = read_plan_question(parse_document(text, "search.yaml"), "search.yaml");
  const auto folded = [&](const PlanSpaceOptions& options) {
    const PlanSpace space(question, options);
    std::vector<PlanPoint> groups = space.groups();
    std::erase_if(groups, [](const PlanPoint& p) { return p.expert_tensor == 0; });
    for (const PlanPoint& p : groups) {
      CHECK((p.tensor == 1 || p.sequence));
      CHECK(space.data(p) * p.context * p.tensor % (p.expert * p.expert_tensor) == 0);
    }
    return groups;
  };
  const std::vector<PlanPoint> default_groups = folded({});
  CHECK(std::any_of(default_groups.begin(), default_groups.end(),
                    [](const PlanPoint& p) { return p.tensor == 4 && p.expert == 8 && p.expert_tensor == 1; }));
  CHECK(std::all_of(default_groups.begin(), default_groups.end(),
                    [](const PlanPoint& p) { return p.tensor > 1 && p.expert_tensor == 1; }));
  PlanSpaceOptions options;
  options.vary.push_back({"plan.expert_parallel.tensor", {"2", "4"}});
  const std::vector<PlanPoint> varied = folded(options);
  CHECK(std::any_of(varied.begin(), varied.end(),
                    [](const PlanPoint& p) { return p.tensor == 1 && p.expert == 2 && p.expert_tensor == 4; }));
  const PlanSpace space(question, options);
  const Scenario read = read_with_plan(question.base, space.section(varied.front()));
  CHECK(point_of(read).expert_tensor == varied.front().expert_tensor);
}

}  // namespace strategies_test_expert_tensor
