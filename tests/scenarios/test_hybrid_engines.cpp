// Engines of networks in which not every layer has attention: what they keep of a sequence, by closed forms.
#include <catch2/catch.hpp>

#include "models/generation/speculation.hpp"
#include "models/reading/document.hpp"
#include "tests/scenarios/loops.hpp"

namespace scenarios_test_hybrid_engines {

using namespace trainyard;
using namespace trainyard::test;

namespace {

NetworkEntry catalog_network(const char* name) {
  return read_network_entry(Catalog().resolve("network", Node::scalar_node(name)));
}

DecodeCosts costs_of(const NetworkEntry& model, const EngineLayout& layout = {.memory_share = 0.9},
                     const char* engine = "vllm") {
  const Scenario s = loop_scenario({{"post_training.generation.engine", engine}});
  return DecodeCosts(
      model, s.post_training->engine, s.post_training->generators.node.gpu, layout, [](Bytes) { return Seconds{}; },
      [](Bytes) { return Seconds{}; });
}

/// A network keeps bytes of each token in all layers with attention, and numbers of the states of all others.
struct Kept {
  const char* name;
  NetworkEntry model;
  double token_bytes, layers, recurrence, convolution;
};

std::vector<Kept> hybrids() {
  const auto parsed = [](const char* text) { return read_network_entry(parse_document(text, "config.json")); };
  return {
      // 4 layers of attention of 52, 24 of Mamba-2.
      {"Nemotron-H", catalog_network("nemotron-h-8b"), 4 * 2 * 8 * 128 * 2, 24, 8192 * 128, 3 * (8192 + 2 * 8 * 128)},
      // Every fourth of 48 layers has attention, the others a gated delta net.
      {"Qwen3-Next", catalog_network("qwen3-next-80b-a3b"), 12 * 2 * 2 * 256 * 2, 36, 32 * 128 * 128,
       3 * (4096 + 2 * 16 * 128)},
      // Layer 2 of 4 has attention, the others Mamba-1, which convolves values only.
      {"Jamba",
       parsed("{model_type: jamba, vocab_size: 1024, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 4, "
              "num_attention_heads: 8, num_key_value_heads: 4, attn_layer_period: 4, attn_layer_offset: 2, "
              "num_experts: 4}"),
       1 * 2 * 4 * 32 * 2, 3, 512 * 16, 3 * 512},
      // Each of 3 layers has both.
      {"Falcon-H1",
       parsed("{model_type: falcon_h1, num_hidden_layers: 3, hidden_size: 256, num_attention_heads: 8, "
              "num_key_value_heads: 2, head_dim: 32, mamba_d_ssm: 512, mamba_n_heads: 8, mamba_d_head: 64, "
              "mamba_d_state: 32, mamba_n_groups: 2, intermediate_size: 512, vocab_size: 1024}"),
       3 * 2 * 2 * 32 * 2, 3, 512 * 32, 3 * (512 + 2 * 2 * 32)},
      // All 7 layers scan, and 4 of them use a block of attention too, whose heads read two hidden states.
      {"Zamba2",
       parsed("{model_type: zamba2, vocab_size: 1024, hidden_size: 256, num_hidden_layers: 7, n_mamba_heads: 8, "
              "mamba_d_state: 64, mamba_ngroups: 2, num_attention_heads: 8, num_mem_blocks: 2, adapter_rank: 16, "
              "use_mem_rope: true, "
              "hybrid_layer_ids: [1, 3, 5, 6]}"),
       4 * 2 * 8 * 64 * 2, 7, 512 * 64, 3 * (512 + 2 * 2 * 64)},
  };
}

}  // namespace

TEST_CASE("engines keep keys and values of layers with attention, and a state of the others", "[post-training]") {
  for (const Kept& kept : hybrids()) {
    CAPTURE(kept.name);
    const DecodeCosts costs = costs_of(kept.model);
    for (const double tokens : {1.0, 1000.0, 50000.0}) CHECK(costs.cache(tokens).value == tokens * kept.token_bytes);
    CHECK(costs.states().value == kept.layers * 2 * (kept.recurrence + kept.convolution));
    // SGLang keeps the recurrence in fp32.
    CHECK(costs_of(kept.model, {.memory_share = 0.9}, "sglang").states().value ==
          kept.layers * (4 * kept.recurrence + 2 * kept.convolution));
    if (kept.name == std::string("Zamba2")) continue;  // tensor ranks do not split its shared blocks
    const DecodeCosts halves = costs_of(kept.model, {.tensor = 2, .memory_share = 0.9});
    CHECK(halves.states().value == costs.states().value / 2);
    CHECK(halves.cache(1000).value == costs.cache(1000).value / 2);
  }
  CHECK(costs_of(catalog_network("llama-3-8b")).states().value == 0);
  CHECK(costs_of(catalog_network("mamba2-2.7b")).cache(1000).value == 0);
  CHECK(costs_of(catalog_network("mamba2-2.7b")).states().value > 0);
}

TEST_CASE("a decode step reads and writes the states, however long the context is", "[post-training]") {
  const Scenario s = loop_scenario();
  const Gpu& gpu = s.post_training->generators.node.gpu;
  const EngineKernels& kernels = s.post_training->engine.kernels_on(gpu);
  for (const Kept& kept : hybrids()) {
    CAPTURE(kept.name);
    const DecodeCosts costs = costs_of(kept.model);
    constexpr int batch = 256;
    // Attention over so short a context takes its shortest time.
    const double attention_layers =
        costs.decode(batch, 100000).cache.value > costs.decode(batch, 1).cache.value ? 1 : 0;
    const double moved = batch * 2 * costs.states().value, scans = kept.layers * kernels.scan_start.value;
    const double of_states = scans + moved / (kernels.scan_rate * gpu.memory_bandwidth.value);
    const double rest = costs.decode(batch, 1).cache.value - of_states;
    CHECK(attention_layers == 1);
    CHECK(rest >= kernels.attention_start.value);
    CHECK(rest < kept.layers * 2 * kernels.attention_start.value);
    // A longer context adds the reading of its keys and values.
    const double more = (costs.decode(batch, 200000).cache - costs.decode(batch, 100000).cache).value;
    CHECK(more == Approx(batch * 100000 * kept.token_bytes / (kernels.attention_rate * gpu.memory_bandwidth.value))
                      .epsilon(1e-6));
  }
}

TEST_CASE("sequences of a hybrid fill an engine by their states and tokens", "[post-training]") {
  struct StateCosts : PlainCosts {
    Bytes states() const override { return Bytes{500}; }
  } costs;
  // A prompt of 100 tokens is shared by 4 answers; each has a state, and its own tokens.
  costs.bytes = Bytes{1e9};
  std::vector<PlannedAnswer> answers;
  for (int i = 0; i < 4; ++i) answers.push_back({0, 32});
  CHECK(run_engine(costs, answers, kLimits).cache_peak.value == 100 + 4 * (500 + 32));
  // Room for two of them: the others wait.
  costs.bytes = Bytes{100 + 2 * (500 + 32)};
  const EngineRun run = run_engine(costs, answers, kLimits);
  CHECK(run.cache_peak.value == 100 + 2 * (500 + 32));
  CHECK(run.steps == 62);
  CHECK(run.preemptions == 0);
}

TEST_CASE("speculation keeps a state for each drafted token", "[post-training]") {
  const DecodeCosts model = costs_of(catalog_network("nemotron-h-8b")),
                    draft = costs_of(catalog_network("llama-3.2-1b"));
  const SpeculativeCosts three(model, draft, {3, 0.7, {}});
  CHECK(three.states().value == 4 * model.states().value);
}

TEST_CASE("a loop of a hybrid has room for more answers than with attention in every layer", "[post-training]") {
  const PostTrainingResult r = simulated_loop({{"model", "nemotron-h-8b"}});
  const Scenario s = loop_scenario({{"model", "nemotron-h-8b"}});
  const EngineCosts costs = generation_costs(*s.post_training, s.model.entry);
  const double answers = static_cast<double>(s.post_training->samples()) / s.post_training->engines();
  CHECK(r.memory.cache_peak > answers * costs.prices->states() * 0.5);
  CHECK(r.memory.cache_peak < r.memory.cache);
  CHECK(r.preemptions == 0);
}

}  // namespace scenarios_test_hybrid_engines
