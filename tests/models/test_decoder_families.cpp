// Decoders read from Hugging Face's config.json: published parameters, windows, norms, experts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "models/reading/catalog.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_decoder_families {

using namespace trainyard;

namespace {

double attention_flops(const std::string& config, std::int64_t layer, std::int64_t seq) {
  const Network network = network_of(parsed_config(config), 1, seq);
  return work_of(network.layers.at(static_cast<std::size_t>(layer) + 1).forward, "attention").flops.value;
}

const char* kGemmaLike =
    "{model_type: gemma3_text, hidden_size: 64, intermediate_size: 128, head_dim: 16, num_attention_heads: 4, "
    "num_key_value_heads: 1, num_hidden_layers: 6, max_position_embeddings: 4096, vocab_size: 256, sliding_window: 128";

}  // namespace

TEST_CASE("decoders of 2024 and 2025 have the parameters of their model cards", "[transformer][families]") {
  const std::map<std::string, double> published{
      {"llama-3.2-1b", 1'235'814'400},       {"llama-3.2-3b", 3'212'749'824},
      {"llama-3.3-70b", 70'553'706'496},     {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},       {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-7b", 7'615'616'512},         {"qwen2.5-14b", 14'770'033'664},
      {"qwen2.5-32b", 32'763'876'352},       {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},         {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},           {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},         {"qwen3-235b-a22b", 235'093'634'560},
      {"gemma-2-2b", 2'614'341'888},         {"gemma-2-9b", 9'241'705'984},
      {"gemma-2-27b", 27'227'128'320},       {"gemma-3-1b", 999'885'952},
      {"phi-3-mini", 3'821'079'552},         {"phi-4", 14'659'507'200},
      {"olmo-2-7b", 7'298'617'344},          {"olmo-2-13b", 13'716'198'400},
      {"olmo-2-32b", 32'234'279'936},        {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},     {"mistral-nemo-12b", 12'247'782'400},
      {"mistral-small-24b", 23'572'403'200}, {"mistral-large-123b", 122'610'069'504},
      {"kimi-k2", 1'026'408'232'448},        {"llama-4-scout", 107'769'861'120},
      {"llama-4-maverick", 400'711'848'960},
  };
  for (const auto& [name, parameters] : published) {
    CAPTURE(name);
    CHECK(network_of(catalog_config(name), 1, 512).parameters() == parameters);
  }
  // Figures that reports round.
  const std::map<std::string, double> billions{
      {"gemma-3-12b", 11.8}, {"gemma-3-27b", 27.0}, {"glm-4.5", 353}, {"glm-4.5-air", 107}, {"nemotron-4-340b", 341}};
  for (const auto& [name, parameters] : billions) {
    CAPTURE(name);
    CHECK(network_of(catalog_config(name), 1, 512).parameters() == Approx(parameters * 1e9).epsilon(0.005));
  }
}

TEST_CASE("decoders with one norm a block, and others of 2021 to 2024, have the parameters of their shapes",
          "[transformer][families]") {
  // By hand from the shapes of the layers, a tied table once; DeepSeekMoE's is recalled. Model cards were not read.
  const std::map<std::string, std::pair<std::string, double>> published{
      {"GPT-J 6B",
       {"{model_type: gptj, n_embd: 4096, n_layer: 28, n_head: 16, n_positions: 2048, n_inner: null, rotary_dim: 64, "
        "vocab_size: 50400}",
        6'050'882'784}},
      {"Falcon 7B",
       {"{model_type: falcon, hidden_size: 4544, num_hidden_layers: 32, num_attention_heads: 71, vocab_size: 65024}",
        6'921'720'704}},
      {"Falcon 40B",
       {"{model_type: falcon, hidden_size: 8192, num_hidden_layers: 60, num_attention_heads: 128, num_kv_heads: 8, "
        "new_decoder_architecture: true, vocab_size: 65024}",
        41'303'293'952}},
      {"Phi-2",
       {"{model_type: phi, hidden_size: 2560, intermediate_size: 10240, num_hidden_layers: 32, num_attention_heads: "
        "32, hidden_act: gelu_new, max_position_embeddings: 2048, vocab_size: 51200}",
        2'779'683'840}},
      {"Command R",
       {"{model_type: cohere, hidden_size: 8192, intermediate_size: 22528, num_hidden_layers: 40, "
        "num_attention_heads: 64, max_position_embeddings: 8192, vocab_size: 256000}",
        34'980'831'232}},
      {"Command R+",
       {"{model_type: cohere, hidden_size: 12288, intermediate_size: 33792, num_hidden_layers: 64, "
        "num_attention_heads: 96, num_key_value_heads: 8, use_qk_norm: true, max_position_embeddings: 8192, "
        "vocab_size: 256000}",
        103'810'674'688}},
      {"Command R7B",
       {"{model_type: cohere2, hidden_size: 4096, intermediate_size: 14336, num_hidden_layers: 32, "
        "num_attention_heads: 32, num_key_value_heads: 8, max_position_embeddings: 8192, vocab_size: 256000}",
        8'028'033'024}},
      {"InternLM 2 7B",
       {"{model_type: internlm2, hidden_size: 4096, intermediate_size: 14336, num_hidden_layers: 32, "
        "num_attention_heads: 32, num_key_value_heads: 8, bias: false, max_position_embeddings: 32768, vocab_size: "
        "92544}",
        7'737'708'544}},
      {"Baichuan 2 7B",
       {"{model_type: baichuan, hidden_size: 4096, intermediate_size: 11008, num_hidden_layers: 32, "
        "num_attention_heads: 32, model_max_length: 4096, vocab_size: 125696}",
        7'505'973'248}},
      {"DeepSeekMoE 16B",
       {"{model_type: deepseek, hidden_size: 2048, intermediate_size: 10944, moe_intermediate_size: 1408, "
        "num_hidden_layers: 28, num_attention_heads: 16, n_routed_experts: 64, n_shared_experts: 2, "
        "num_experts_per_tok: 6, first_k_dense_replace: 1, max_position_embeddings: 4096, vocab_size: 102400}",
        16'375'728'128}},
      {"Phi-3.5-MoE",
       {"{model_type: phimoe, hidden_size: 4096, intermediate_size: 6400, num_hidden_layers: 32, "
        "num_attention_heads: 32, num_key_value_heads: 8, num_local_experts: 16, num_experts_per_tok: 2, "
        "attention_bias: true, lm_head_bias: true, max_position_embeddings: 131072, vocab_size: 32064}",
        41'873'153'344}}};
  for (const auto& [name, expected] : published) {
    CAPTURE(name);
    const Network network = network_of(parsed_config(expected.first), 1, 512);
    CHECK(network.parameters() == expected.second);
    CHECK(gradients_are_ready_once(network));
  }
  // The norms of its heads have no bias; modelled is one.
  const char* const stablelm =
      "{model_type: stablelm, hidden_size: 5120, intermediate_size: 13824, num_hidden_layers: 40, "
      "num_attention_heads: 32, num_key_value_heads: 8, qk_layernorm: true, use_parallel_residual: true, "
      "max_position_embeddings: 4096, vocab_size: 100352}";
  CHECK(network_of(parsed_config(stablelm), 1, 512).parameters() == Approx(12'143'185'920).epsilon(1e-4));
}

TEST_CASE("both branches of a block with one norm read it once, and are added", "[transformer][families]") {
  const std::string sizes =
      ", hidden_size: 64, num_attention_heads: 4, num_hidden_layers: 2, vocab_size: 256, ffn_hidden_size: 256}";
  const auto block = [&](const std::string& keys) {
    return network_of(parsed_config("{model_type: falcon" + keys + sizes), 1, 128).layers.at(1);
  };
  const auto norms = [](const Layer& layer) {
    const std::vector<std::string> all = names(layer.forward);
    return std::count_if(all.begin(), all.end(), [](const std::string& n) { return n.find("norm") != n.npos; });
  };
  const Layer one = block(""), two = block(", parallel_attn: false");
  CHECK(norms(one) == 1);
  CHECK(norms(two) == 2);
  CHECK(two.parameter_elements() - one.parameter_elements() == 2 * 64);  // weight and bias of the other norm
  CHECK(work_of(one.forward, "branches_sum").bytes == Bytes{3.0 * 2 * 128 * 64});
  CHECK(work_of(one.forward, "fc1").flops == work_of(two.forward, "fc1").flops);
  TransformerOptions split;
  split.sharding.tensor = 2;
  split.sharding.sequence = true;
  const TransformerConfig config = parsed_config("{model_type: falcon, multi_query: false" + sizes);
  const Layer half = transformer_network(config, 1, 128, Precision::bf16, split).layers.at(1);
  CHECK(in_order(half.forward_exchanges, half.forward.size()));
  CHECK(names(half.forward_exchanges) ==
        std::vector<std::string>{"attention.gather", "attention.scatter", "mlp.gather", "mlp.scatter"});
  CHECK(work_of(half.forward, "fc1").flops == work_of(one.forward, "fc1").flops / 2);
}

TEST_CASE("the active parameters are those that reports publish", "[transformer][families]") {
  const std::map<std::string, double> billions{{"gpt-oss-20b", 3.6},  {"gpt-oss-120b", 5.1},   {"kimi-k2", 32.6},
                                               {"glm-4.5", 32},       {"glm-4.5-air", 12},     {"qwen3-235b-a22b", 22},
                                               {"llama-4-scout", 17}, {"llama-4-maverick", 17}};
  for (const auto& [name, active] : billions) {
    CAPTURE(name);
    CHECK(network_of(catalog_config(name), 1, 512).active_parameters() == Approx(active * 1e9).epsilon(0.2));
  }
}

TEST_CASE("attention has a window in the layers that the config names", "[transformer][families]") {
  const std::string gemma = std::string(kGemmaLike) + "}";
  const double whole = attention_flops(gemma, 5, 1024);
  CHECK(whole == Approx(4.0 * 4 * 16 * 1024 * 1024 / 2));
  for (const int layer : {0, 1, 4}) CHECK(attention_flops(gemma, layer, 1024) < 0.26 * whole);
  const std::string other = std::string(kGemmaLike) + ", sliding_window_pattern: 2}";
  CHECK(attention_flops(other, 1, 1024) == whole);
  CHECK(attention_flops(other, 0, 1024) < whole);
  const std::string listed = std::string(kGemmaLike) +
                             ", layer_types: [sliding_attention, sliding_attention, full_attention, sliding_attention, "
                             "sliding_attention, full_attention]}";
  CHECK(attention_flops(listed, 2, 1024) == whole);
  // With chunks, each token sees half of its own block on average.
  const TransformerConfig scout = catalog_config("llama-4-scout", "{attention_chunk_size: 512, num_hidden_layers: 4}");
  const Network network = network_of(scout, 1, 2048);
  const auto flops = [&network](std::size_t layer) {
    return work_of(network.layers.at(layer + 1).forward, "attention").flops.value;
  };
  CHECK(flops(0) == Approx(flops(3) / 4));
}

TEST_CASE("norms are in the places that a family has", "[transformer][families]") {
  const auto norms = [](const char* name) {
    const Network network = network_of(catalog_config(name, "{num_hidden_layers: 2}"), 1, 64);
    int count = 0;
    for (const KernelCall& kernel : network.layers.at(1).forward)
      if (kernel.name.ends_with("norm")) ++count;
    return count;
  };
  CHECK(norms("gemma-2-2b") == 4);
  CHECK(norms("gemma-3-1b") == 6);  // queries and keys too
  CHECK(norms("olmo-2-7b") == 4);
  CHECK(norms("llama-3.2-1b") == 2);
  for (const char* name : {"gemma-2-2b", "olmo-2-7b", "gpt-oss-20b", "llama-4-maverick", "glm-4.5-air", "phi-4"}) {
    CAPTURE(name);
    CHECK(gradients_are_ready_once(network_of(catalog_config(name), 1, 64)));
  }
}

TEST_CASE("Llama 4 Maverick has experts in every second layer", "[transformer][families]") {
  const Network network = network_of(catalog_config("llama-4-maverick"), 1, 64);
  const auto routes = [&network](std::size_t layer) {
    for (const KernelCall& kernel : network.layers.at(layer + 1).forward)
      if (kernel.name.starts_with("router")) return true;
    return false;
  };
  CHECK_FALSE(routes(0));
  CHECK(routes(1));
  CHECK_FALSE(routes(46));
  CHECK(routes(47));
}

TEST_CASE("only the text part of a network of text and images is read", "[transformer][families]") {
  const TransformerConfig c = parsed_config(
      "{model_type: gemma3, name: both, vision_config: {hidden_size: 1152}, text_config: " + std::string(kGemmaLike) +
      "}}");
  CHECK(c.name == "both (text part)");
  CHECK(c.num_hidden_layers == 6);
  CHECK(c.tie_word_embeddings);
}

TEST_CASE("orders of layers that are not modelled are refused", "[transformer][families]") {
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(parsed_config(std::string(kGemmaLike) + ", layer_types: [full_attention, sliding_attention, "
                                                            "full_attention, full_attention, full_attention, "
                                                            "full_attention]}"),
                    Contains("config.json:1:") && Contains("layer_types"));
  CHECK_THROWS_WITH(parsed_config(std::string(kGemmaLike) + ", layer_types: [full_attention]}"),
                    Contains("1 of 6 layers"));
}

}  // namespace models_test_decoder_families
