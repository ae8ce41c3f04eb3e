// Number formats of an engine: weights, cache, and the bytes that are sent to it.
#include <catch2/catch.hpp>

#include "scenarios/src/studies/measured/post_training_errors.hpp"
#include "tests/scenarios/loops.hpp"

namespace scenarios_test_engine_formats {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

const std::string kPrecision = "post_training.generation.precision", kCache = "post_training.generation.cache";

Overrides on_b200(const char* weights, const char* cache = "bf16") {
  return {{"cluster.node", "dgx-b200"}, {kPrecision, weights}, {kCache, cache}};
}

EngineCosts costs_of(const Overrides& overrides) {
  const Scenario s = loop_scenario(overrides);
  return generation_costs(*s.post_training, s.model.entry);
}

}  // namespace

TEST_CASE("weights and cache have the bytes of their format, and embedding and head stay in 16 bits",
          "[post-training]") {
  const EngineCosts bf16 = costs_of(on_b200("bf16")), fp8 = costs_of(on_b200("fp8", "fp8")),
                    nvfp4 = costs_of(on_b200("nvfp4", "nvfp4"));
  const double outside = 2 * 2.0 * 128256 * 4096;  // bytes of embedding and head, besides norms
  const double blocks = bf16.weights.value - outside;
  CHECK(fp8.weights.value == Approx(outside + blocks / 2).epsilon(1e-3));
  CHECK(nvfp4.weights.value == Approx(outside + blocks * (0.5 + 1.0 / 16) / 2).epsilon(1e-3));
  CHECK(fp8.prices->cache(100).value == bf16.prices->cache(100).value / 2);
  CHECK(nvfp4.prices->cache(100).value == Approx(bf16.prices->cache(100).value * 0.5625 / 2));
  CHECK(nvfp4.prices->room() > fp8.prices->room());
}

TEST_CASE("mxfp4 narrows experts alone, and nvfp4 leaves the inputs of latent attention wide", "[post-training]") {
  const Catalog catalog;
  const auto weights_of = [&](const char* network, EngineFormat format) {
    const Scenario s = loop_scenario({{"cluster.node", "dgx-b200"}});
    return DecodeCosts(read_network_entry(catalog.resolve("network", Node::scalar_node(network))),
                       s.post_training->engine, s.post_training->generators.node.gpu,
                       EngineLayout{.weights = format, .memory_share = 0.9}, [](Bytes) { return Seconds{}; })
        .weights()
        .value;
  };
  const double experts = 36 * 128 * 3.0 * 2880 * 2880;  // gpt-oss 120B has so many
  CHECK(weights_of("gpt-oss-120b", EngineFormat::bf16) - weights_of("gpt-oss-120b", EngineFormat::mxfp4) ==
        Approx(experts * (2 - 0.53125)).epsilon(1e-3));
  CHECK(weights_of("gpt-oss-120b", EngineFormat::fp8_block) == weights_of("gpt-oss-120b", EngineFormat::fp8));
  // 4.3 of the 11.4 billion parameters of DeepSeek-V3's attention stay in 16 bits.
  const double latent = weights_of("deepseek-v3", EngineFormat::nvfp4), all = 671e9 * 0.5625;
  CHECK(latent - all == Approx(4.3e9 * (2 - 0.5625) + 2 * 129280 * 7168 * (2 - 0.5625)).epsilon(0.05));
}

TEST_CASE("layers of experts in mxfp4 take longer on GPUs that widen them, by tokens of all GPUs and by their products",
          "[post-training]") {
  const Catalog catalog;
  const NetworkEntry model = read_network_entry(catalog.resolve("network", Node::scalar_node("gpt-oss-120b")));
  const auto products = [&](const char* node, const std::string& kernels, int batch, int spread = 1) {
    const Scenario s =
        loop_scenario({{"cluster.node", node},
                       {"post_training.generation.engine", "{base: vllm, kernels: {hopper: {" + kernels + "}}}"}});
    EngineLayout layout{.weights = EngineFormat::mxfp4, .memory_share = 0.9};
    layout.expert = layout.data = spread;
    const auto free = [](Bytes) { return Seconds{}; };
    return DecodeCosts(model, s.post_training->engine, s.post_training->generators.node.gpu, layout, free, free)
        .decode(batch, 100)
        .products.value;
  };
  const double plain = products("dgx-h100", "widened_start: 0 us", 64);
  CHECK(products("dgx-h100", "widened_start: 10 us", 64) - plain == Approx(36 * 10e-6));  // it has 36 layers
  for (const int spread : {1, 4})
    CHECK(products("dgx-h100", "widened_token: 1 us", 64, spread) -
              products("dgx-h100", "widened_token: 0 us", 64, spread) ==
          Approx(36 * 64e-6));
  CHECK(products("dgx-h100", "widened_rate: 0.1", 4096) > products("dgx-h100", "widened_rate: 1", 4096));
  CHECK(products("dgx-b200", "widened_start: 10 us", 64) == products("dgx-b200", "widened_start: 0 us", 64));
}

TEST_CASE("a decode step reads the experts that its tokens choose", "[post-training]") {
  const Catalog catalog;
  const auto products = [&](const char* skew, int batch) {
    const Scenario s =
        loop_scenario({{"post_training.generation.engine", std::string("{base: vllm, expert_skew: ") + skew + "}"}});
    return DecodeCosts(read_network_entry(catalog.resolve("network", Node::scalar_node("qwen3-30b-a3b"))),
                       s.post_training->engine, s.post_training->generators.node.gpu, EngineLayout{.memory_share = 0.9},
                       [](Bytes) { return Seconds{}; })
        .decode(batch, 100)
        .products.value;
  };
  CHECK(products("1", 16) < 0.9 * products("0", 16));
  CHECK(products("0", 16) < products("0", 64));
  // One token has as many experts, and a large batch has all of them, however popular they are.
  CHECK(products("1", 1) == Approx(products("0", 1)).epsilon(1e-3));
  CHECK(products("1", 4096) == Approx(products("0", 4096)).epsilon(0.02));
}

TEST_CASE("narrower weights decode faster on a GPU that has the units", "[post-training]") {
  double previous = 1e9;
  for (const char* format : {"bf16", "fp8", "nvfp4"}) {
    CAPTURE(format);
    const EngineCosts costs = costs_of(on_b200(format));
    CHECK(costs.prices->decode(8, 500).products.value < previous);
    previous = costs.prices->decode(8, 500).products.value;
    CHECK(costs.prices->decode(8, 500).cache == costs_of(on_b200("bf16")).prices->decode(8, 500).cache);
  }
  const PromptTokens prompts{8192, 1024, 0};
  CHECK(costs_of(on_b200("nvfp4")).prices->prefill(prompts) < costs_of(on_b200("bf16")).prices->prefill(prompts));
}

TEST_CASE("an engine keeps all tokens of a sliding window, or those that the window has", "[post-training]") {
  const Catalog catalog;
  const NetworkEntry model = read_network_entry(catalog.resolve("network", Node::scalar_node("gpt-oss-120b")));
  const auto cache = [&](const char* engine) {
    const Scenario s = loop_scenario({{"post_training.generation.engine", engine}});
    return DecodeCosts(model, s.post_training->engine, s.post_training->generators.node.gpu,
                       EngineLayout{.memory_share = 0.9}, [](Bytes) { return Seconds{}; })
        .cache(4096)
        .value;
  };
  const double token = 2 * 8 * 64 * 2.0;  // bytes of a layer: keys and values of 8 heads of 64 numbers in bf16
  CHECK(cache("vllm") == Approx(token * 18 * (4096 + 128)));
  CHECK(cache("trtllm") == Approx(token * 36 * 4096));
}

TEST_CASE("a transfer tensor by tensor takes its host time for each published tensor", "[post-training]") {
  const Catalog catalog;
  const auto tensors = [&](const char* network) {
    return published_tensors(read_network_entry(catalog.resolve("network", Node::scalar_node(network))));
  };
  CHECK(tensors("qwen3-30b-a3b").count == 48 * (3 * 128 + 9) + 3);  // as its published index of weights
  CHECK(tensors("qwen2.5-7b").count == 28 * 12 + 3);
  CHECK(tensors("deepseek-v3").count == Approx(45000).epsilon(0.02));
  CHECK(tensors("gpt-oss-20b").experts == 32);
  CHECK(tensors("gpt-oss-20b").count == 24 * 19 + 3);  // gate and up of all experts are counted as two tensors
  const PublishedTensors llama = tensors("llama-3-8b");
  const PostTrainingResult r = simulated_loop({{"post_training.weights", "{tensor: 1 ms, tensor_layer: 0.1 ms}"}});
  CHECK(r.weights.value == Approx(llama.count * (1e-3 + 32 * 1e-4)));
  CHECK_THROWS_WITH(loop_scenario({{"post_training.weights", "{start: 1 s}"}}), Contains("rate"));
}

TEST_CASE("weights are sent in 16 bits unless the library narrows them before", "[post-training]") {
  const EngineCosts narrow = costs_of(on_b200("nvfp4"));
  CHECK(narrow.sent == narrow.policy);
  Overrides before = on_b200("nvfp4");
  before.emplace_back("post_training.weights", "{base: nemo-rl-colocated, quantized: true}");
  CHECK(costs_of(before).sent == narrow.weights);  // an engine of one GPU
  before[1].second = "bf16";
  CHECK(costs_of(before).sent == narrow.policy);
  before[1].second = "fp8";
  before.emplace_back("post_training.generation.tensor_parallel", "4");
  CHECK(costs_of(before).sent == costs_of(on_b200("fp8")).weights);
  const PostTrainingResult fp8 = simulated_loop({{kPrecision, "fp8"}, {"post_training.weights", "{rate: 1 GB/s}"}}),
                           sent = simulated_loop(
                               {{kPrecision, "fp8"}, {"post_training.weights", "{rate: 1 GB/s, quantized: true}"}});
  CHECK(sent.weights.value / fp8.weights.value == Approx(sent.sent / fp8.sent));
  CHECK(sent.sent < 0.6 * sent.policy);
  const Catalog catalog;
  for (const std::string& name : catalog.names("weight-transfer"))
    CHECK(read_weight_transfer(catalog.resolve("weight-transfer", Node::scalar_node(name))).quantized ==
          name.starts_with("checkpoint-engine"));
}

TEST_CASE("a format that the GPU lacks is refused with those that it has, and nvfp4 is named as unmeasured",
          "[post-training]") {
  check_loop_refused({{kPrecision, "nvfp4"}}, "has no nvfp4; expected fp8 or bf16");
  check_loop_refused({{kCache, "nvfp4"}}, "post_training.generation.cache: ");
  check_loop_refused({{kPrecision, "fp6"}}, "fp6");
  check_loop_refused({{kCache, "mxfp4"}}, "mxfp4");
  CHECK_THAT(unmeasured_loop_parts(loop_scenario(on_b200("nvfp4", "fp8"))),
             Contains("engines in nvfp4, a narrow cache"));
}

}  // namespace scenarios_test_engine_formats
