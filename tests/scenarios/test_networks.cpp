// The networks that a scenario can name, and the lengths of their sequences.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "scenarios/src/running/simulate.hpp"
#include "tests/models/listed_families.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_networks {

using namespace trainyard;

namespace {

Scenario network_scenario(const std::string& model, const std::string& plan = "{}") {
  const std::string text = "cluster: {nodes: 1, node: dgx-a100}\nmodel: " + model + "\nplan: " + plan + "\n";
  return read_scenario_text(text, "networks.yaml", {{"plan.micro_batch_size", "1"}, {"plan.precision", "bf16"}});
}

std::string network_error(const std::string& model, const std::string& plan) {
  return test::user_error([&] { network_scenario(model, plan); });
}

}  // namespace

TEST_CASE("every network of the catalog can be named", "[scenario]") {
  for (const std::string& name : Catalog().names("network")) {
    CAPTURE(name);
    const Scenario s = network_scenario(name);
    CHECK(s.network.parameters() > 1e5);
    CHECK(s.network.source.size() > 20);
  }
}

TEST_CASE("the length of an image's sequence follows from the network", "[scenario]") {
  CHECK(network_scenario("vit-b-16").network.tokens_per_sample == 197);
  CHECK(network_scenario("{base: vit-b-16, image_size: 384}").network.tokens_per_sample == 577);
  CHECK(network_scenario("vit-b-16", "{seq_length: 197}").network.tokens_per_sample == 197);
  CHECK(network_error("vit-b-16", "{seq_length: 512}") ==
        "networks.yaml:3:20: plan.seq_length: 512 tokens, but vit-b-16 has 197: an image's patches and the class "
        "token; leave it out, or change image_size or patch_size");
}

TEST_CASE("an encoder-decoder has two sequence lengths", "[scenario]") {
  CHECK(network_scenario("t5-base").network.tokens_per_sample == 512 + 128);
  CHECK(network_scenario("t5-base", "{seq_length: 1024, decoder_seq_length: 100}").network.tokens_per_sample == 1124);
  CHECK(network_error("gpt2", "{decoder_seq_length: 100}") ==
        "networks.yaml:3:28: plan.decoder_seq_length: gpt2 has no decoder beside an encoder");
  CHECK(network_error("t5-base", "{decoder_seq_length: 0}").find("least is 1") != std::string::npos);
}

TEST_CASE("learned positions limit the length of the sequence, rotary positions do not", "[scenario]") {
  CHECK(network_error("bert-large", "{seq_length: 1024}") ==
        "networks.yaml:3:20: plan.seq_length: 1024 tokens, but bert-large has 512 learned positions");
  CHECK(network_scenario("mixtral-8x7b", "{seq_length: 65536}").network.tokens_per_sample == 65536);
}

TEST_CASE("a step of each family runs, and its TFLOP/s per GPU are the network's model FLOPs over the step",
          "[scenario]") {
  for (const char* model :
       {"{base: bert-base, num_hidden_layers: 2}", "{base: vit-b-16, num_hidden_layers: 2}",
        "{base: t5-base, num_layers: 2}", "{base: mixtral-8x7b, num_hidden_layers: 2, hidden_size: 512}",
        "{base: dit-xl-2}", "{base: deepseek-v3, num_hidden_layers: 4, hidden_size: 512, n_routed_experts: 16}"}) {
    CAPTURE(model);
    const Scenario s =
        network_scenario(model, "{global_batch_size: 8" + std::string(model[7] == 'v' ? "}" : ", seq_length: 256}"));
    const Result r = simulate(s);
    CHECK(r.step_time.value > 0);
    CHECK(r.mfu > 0);
    CHECK(r.mfu < 1);
    const double model_flops = s.network.model_flops_per_token().value * static_cast<double>(s.network.tokens());
    CHECK(r.tflops_per_gpu == Approx(model_flops / r.step_time.value * 1e-12));
  }
}

TEST_CASE("a step of a network that is written as operators has the time, the memory and the bytes of its family",
          "[scenario][operators]") {
  const auto answer = [](const char* model, const std::string& software, const std::string& plan) {
    Node document =
        parse_document("cluster: {node: dgx-h100}\nsoftware: " + software +
                           "\nplan: {micro_batch_size: 2, global_batch_size: 32, seq_length: 512, " + plan + "}\n",
                       "listed.yaml");
    document.fields.emplace_back("model", parse_document(model, "model.yaml"));
    const nlohmann::json json = to_json(simulate(read_scenario(document, "listed"))).flatten();
    return json;
  };
  struct Plan {
    const char *software, *plan;
    bool experts = false;
  };
  for (const Plan& plan :
       {Plan{"megatron-core", "tensor_parallel: 2, pipeline_parallel: 2"},
        {"megatron-core", "tensor_parallel: 2, context_parallel: 2, pipeline_parallel: 2, recompute: full"},
        {"megatron-core",
         "tensor_parallel: 4, pipeline_parallel: 2, pipeline: {schedule: interleaved-1f1b, "
         "chunks: 2}, recompute: selective, precision: fp8"},
        {"megatron-core", "tensor_parallel: 2, expert_parallel: 4, data_parallel: {zero_stage: 1}", true},
        {"pytorch-fsdp", "data_parallel: {zero_stage: 3}, recompute: full"}})
    for (const test::ListedFamily& family : test::listed_families()) {
      if (plan.experts && !family.has_experts) continue;
      CAPTURE(family.name, plan.software, plan.plan);
      const nlohmann::json expected = answer(family.config, plan.software, plan.plan),
                           listed = answer(family.operators, plan.software, plan.plan);
      int compared = 0;
      for (const auto& [key, value] : expected.items()) {
        if (!value.is_number() || key == "/wall_s") continue;
        CAPTURE(key);
        REQUIRE(listed.contains(key));
        CHECK(listed[key].get<double>() == Approx(value.get<double>()).epsilon(1e-12));
        ++compared;
      }
      CHECK(compared > 50);
    }
}

TEST_CASE("all ranks share the tables of a recommendation model, and none has a gradient of them", "[scenario]") {
  const auto dlrm = [](const std::string& expert_parallel) {
    return read_scenario_text(
        "cluster: {nodes: 1, node: dgx-h100}\nmodel: dlrm-dcnv2\nsoftware: {base: pytorch-ddp, frees_gradients: "
        "false}\n"
        "plan: {global_batch_size: 65536, micro_batch_size: 8192, precision: tf32, optimizer: adam" +
            expert_parallel + "}\n",
        "dlrm.yaml");
  };
  const Result r = simulate(dlrm(""));
  const double tables = 204'184'588.0 * 128 / 8 * (4 + 4 / 128.0), mlps = 16'044'545.0 * 4;
  CHECK(r.memory.parameters.value == Approx(tables + mlps));
  CHECK(r.memory.gradients.value == Approx(mlps));
  CHECK(r.memory.optimizer.value == Approx(2 * mlps));
  CHECK(r.breakdown.exposed_communication.contains("expert parallel"));
  CHECK(simulate(dlrm(", expert_parallel: 8")).step_time.value == r.step_time.value);
  CHECK(simulate(dlrm(", expert_parallel: {imbalance: 1.5, size: 8}")).step_time.value > r.step_time.value);
  CHECK(test::user_error([&] { dlrm(", expert_parallel: 4"); }) ==
        "dlrm.yaml:4:7: plan.expert_parallel: the embedding tables of dlrm-dcnv2 are spread over all ranks that hold "
        "other samples, data 8 x context 1; copies of tables are not modelled; expected 8");
}

TEST_CASE("a network of operators without a loss is refused for training, and runs forward", "[networks]") {
  const std::string hidden =
                        "{model_type: operators, tokens: 64, layers: [{layer: embed, width: 32, operators: "
                        "[embedding: {entries: 100, width: 32}]}",
                    head = ", {layer: head, operators: [linear: {in: 32, out: 100}, cross_entropy: {classes: 100}]}";
  CHECK_THAT(network_error(hidden + "]}", "{}"),
             Catch::Contains("model.layers: no operator of embed, the last layer, computes a loss to train with; "
                             "expected cross_entropy or mean_squared_error as its last operator"));
  // A last layer without width has no loss either, unless an operator computes one.
  for (const std::string width : {"", ", width: 8"})
    for (const std::string loss : {"", ", cross_entropy: {classes: 8}", ", mean_squared_error: {width: 8}"}) {
      const std::string end = ", {layer: head" + width + ", operators: [linear: {in: 32, out: 8}" + loss + "]}]}";
      CAPTURE(end);
      CHECK(network_error(hidden + end, "{}").empty() == !loss.empty());
      CHECK_NOTHROW(network_scenario(hidden + end, "{mode: inference}"));
    }
  CHECK_NOTHROW(network_scenario(hidden + "]}", "{mode: inference}"));
  CHECK_NOTHROW(network_scenario(hidden + head + "]}"));
}

}  // namespace scenarios_test_networks
