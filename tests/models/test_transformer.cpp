#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "sim/error.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_transformer {

using namespace trainyard;

namespace {

const std::string kTinyGpt2 = "model_type: gpt2\nn_layer: 2\nn_embd: 64\nn_head: 4\nn_positions: 32\nvocab_size: 100\n";
const std::string kNoDropout = "embd_pdrop: 0\nattn_pdrop: 0\nresid_pdrop: 0\n";
const std::string kTinyLlama =
    "model_type: llama\nnum_hidden_layers: 2\nhidden_size: 64\nnum_attention_heads: 4\nnum_key_value_heads: 2\n"
    "intermediate_size: 96\nmax_position_embeddings: 32\nvocab_size: 100\n";
const std::string kMistral7b =
    "model_type: mistral\nhidden_size: 4096\nintermediate_size: 14336\nnum_attention_heads: 32\n"
    "num_hidden_layers: 32\nnum_key_value_heads: 8\nmax_position_embeddings: 32768\nsliding_window: 4096\n"
    "vocab_size: 32000\ntie_word_embeddings: false\nhidden_act: silu\nrope_theta: 10000.0\n";

Network one_sample(const TransformerConfig& config) { return transformer_network(config, 1, 16, Precision::bf16); }

const BackwardKernel& backward_kernel(const Layer& layer, const std::string& name) {
  const auto found =
      std::ranges::find_if(layer.backward, [&](const BackwardKernel& kernel) { return kernel.name == name; });
  REQUIRE(found != layer.backward.end());
  return *found;
}

}  // namespace

TEST_CASE("published parameter counts come out exactly") {
  CHECK(one_sample(catalog_config("gpt2")).parameters() == 124'439'808);
  CHECK(one_sample(catalog_config("gpt2-medium")).parameters() == 354'823'168);
  CHECK(one_sample(catalog_config("gpt2-large")).parameters() == 774'030'080);
  CHECK(one_sample(catalog_config("gpt2-xl")).parameters() == 1'557'611'200);
  CHECK(one_sample(catalog_config("llama-2-7b")).parameters() == 6'738'415'616);
  CHECK(one_sample(catalog_config("llama-3-8b")).parameters() == 8'030'261'248);
  CHECK(one_sample(parsed_config(kMistral7b)).parameters() == 7'241'732'096);
  // Qwen2-0.5B: tied, with biases on query, key and value only.
  CHECK(
      one_sample(parsed_config("model_type: qwen2\nhidden_size: 896\nintermediate_size: 4864\nnum_attention_heads: 14\n"
                               "num_hidden_layers: 24\nnum_key_value_heads: 2\nmax_position_embeddings: 131072\n"
                               "use_sliding_window: false\nsliding_window: 131072\ntie_word_embeddings: true\n"
                               "vocab_size: 151936\n"))
          .parameters() == 494'032'768);
}

TEST_CASE("blocks differ in their names alone") {
  const Network network = one_sample(parsed_config(kMistral7b));
  REQUIRE(network.layers.size() == 34);
  const Layer& first = network.layers[1];
  for (std::size_t i = 1; i <= 32; ++i) {
    const Layer& block = network.layers[i];
    CHECK(block.name == "block " + std::to_string(i - 1));
    CHECK(block.activations().value == first.activations().value);
    REQUIRE(block.backward.size() == first.backward.size());
    for (std::size_t k = 0; k < block.backward.size(); ++k) CHECK(block.backward[k].work == first.backward[k].work);
  }
}

TEST_CASE("FLOPs are those of the closed formula") {
  const TransformerConfig config = catalog_config("gpt2-xl");
  const double b = 8, s = 1024, h = 1600, layers = 48, vocab = 50257, tokens = b * s;
  const Network network = transformer_network(config, 8, 1024, Precision::bf16);
  const double matrices = 2 * tokens * (12 * layers * h * h + h * vocab);
  const double attention = layers * 2 * b * s * s * h;  // causal: half of 2 · 2·b·s²·h
  CHECK(network.forward_flops().value == matrices + attention);
  CHECK(network.backward_flops().value == 2 * matrices + 2.5 * attention);
  CHECK(network.tokens() == 8192);
  CHECK(network.model_flops_per_token().value == 6 * 1'557'611'200.0);

  const Network full = transformer_network(config, 8, 1024, Precision::bf16, without_flash_attention());
  CHECK(full.forward_flops().value == matrices + 2 * attention);
  CHECK(full.backward_flops().value == 2 * matrices + 4 * attention);
}

TEST_CASE("a sliding window leaves a band of the causal half") {
  const auto attention = [](std::int64_t s) {
    const Network n = transformer_network(parsed_config(kMistral7b), 1, s, Precision::bf16);
    for (const KernelCall& kernel : n.layers[1].forward)
      if (kernel.name == "attention") return kernel.work.flops.value;
    return 0.0;
  };
  CHECK(attention(4096) == 2.0 * 4096 * 4096 * 4096);
  CHECK(attention(8192) == 4.0 * 4096 * (8192.0 * 4096 - 4096.0 * 4096 / 2));
}

TEST_CASE("a GPT layer keeps what Korthikanti et al. count") {
  const TransformerConfig config = catalog_config("gpt2-xl");
  const double b = 2, s = 512, h = 1600, a = 25;
  const double norm_statistics = 2 * 8 * b * s;  // in addition to the paper: two fp32 numbers for each row and norm
  const Layer flash = transformer_network(config, 2, 512, Precision::bf16).layers[1];
  CHECK(flash.activations().value == 34 * s * b * h + 4 * a * s * b + norm_statistics);
  const Layer unfused = transformer_network(config, 2, 512, Precision::bf16, without_flash_attention()).layers[1];
  CHECK(unfused.activations().value == 34 * s * b * h + 5 * a * s * s * b + norm_statistics);
}

TEST_CASE("without dropout no mask is kept, and no kernel runs for it") {
  const double b = 2, s = 16, h = 64, a = 4;
  const Network network = transformer_network(parsed_config(kTinyGpt2 + kNoDropout), 2, 16, Precision::bf16);
  CHECK(network.layers[1].activations().value == 32 * s * b * h + 4 * a * s * b + 16 * b * s);
  for (const Layer& layer : network.layers)
    for (const KernelCall& kernel : layer.forward) CHECK(kernel.name.find("dropout") == std::string::npos);
  const Layer unfused =
      transformer_network(parsed_config(kTinyGpt2 + kNoDropout), 2, 16, Precision::bf16, without_flash_attention())
          .layers[1];
  CHECK(unfused.activations().value == 32 * s * b * h + 2 * a * s * s * b + 16 * b * s);
}

TEST_CASE("a Llama layer keeps queries, grouped keys and values, and the gated activation") {
  const double n = 2 * 16, h = 64, q = 64, k = 32, f = 96, a = 4;
  TransformerOptions options;
  options.fused_gated_activation = true;
  const auto layer = [&] {
    return transformer_network(parsed_config(kTinyLlama), 2, 16, Precision::bf16, options).layers[1];
  };
  CHECK(layer().activations().value == 2 * n * (4 * h + (q + 2 * k) + q + 3 * f) + 4 * n * a + 8 * n);
  // The backward peak is in the gated activation: gradients of gate, up and product without the product itself, and the
  // residual's.
  CHECK(layer().backward_transient.value == 2 * n * (2 * f + h));
  const double fused = layer().activations().value;
  options.fused_gated_activation = false;
  CHECK(layer().activations().value == fused + 2 * n * f);
}

TEST_CASE("each gradient becomes ready exactly once, a tied one last") {
  for (const std::string& text : {kTinyGpt2, kTinyGpt2 + "tie_word_embeddings: false\n", kTinyLlama,
                                  kTinyLlama + "attention_bias: true\nmlp_bias: true\n"}) {
    for (const bool flash : {true, false}) {
      TransformerOptions options;
      options.flash_attention = flash;
      const Network network = transformer_network(parsed_config(text), 2, 16, Precision::fp32, options);
      CHECK(gradients_are_ready_once(network));
    }
  }
  const Network tied = one_sample(parsed_config(kTinyGpt2));
  CHECK(tied.layers.back().parameters.size() == 2);  // the final norm's
  CHECK(backward_kernel(tied.layers.back(), "output.wgrad").gradients_ready.empty());
  CHECK(tied.layers.front().backward.back().name == "token_embedding.gradient_sum");
  CHECK(tied.layers.front().backward.back().gradients_ready == std::vector<int>{0});
  CHECK(one_sample(parsed_config(kTinyGpt2 + "tie_word_embeddings: false\n")).parameters() == tied.parameters() + 6400);
}

TEST_CASE("work grows with the micro-batch, parameters do not") {
  const TransformerConfig config = parsed_config(kTinyLlama);
  const Network one = transformer_network(config, 1, 16, Precision::bf16);
  const Network four = transformer_network(config, 4, 16, Precision::bf16);
  CHECK(four.parameters() == one.parameters());
  CHECK(four.forward_flops().value == 4 * one.forward_flops().value);
  CHECK(four.activations().value == 4 * one.activations().value);
  CHECK(four.layers[1].output.value == 4 * 16 * 64 * 2);
  for (const Layer& layer : four.layers) {
    CHECK(layer.forward_transient.value >= 0);
    CHECK(layer.backward_transient.value >= 0);
  }
}

TEST_CASE("names and sources are kept, and null means the default") {
  const TransformerConfig config = catalog_config("gpt2-xl");
  CHECK_THAT(config.source, Catch::Contains("openai-community/gpt2-xl"));
  CHECK(config.head_dim == 64);
  CHECK(config.intermediate_size == 6400);
  CHECK(parsed_config(kTinyGpt2 + "n_inner: null\n").intermediate_size == 256);
  CHECK(parsed_config(kTinyGpt2 + "n_inner: 100\nname: small\n").intermediate_size == 100);
  CHECK(parsed_config(kTinyLlama + "head_dim: 32\n").head_dim == 32);
}

TEST_CASE("bad configurations are refused at their place") {
  using Catch::Contains;
  CHECK_THROWS_WITH(parsed_config("n_layer: 2\n"), Contains("model_type") && Contains("gpt2") && Contains("llama"));
  CHECK_THROWS_WITH(parsed_config("model_type: rwkv\n"), Contains("config.json:1:13") && Contains("rwkv"));
  CHECK_THROWS_WITH(parsed_config(kTinyGpt2 + "n_laier: 3\n"), Contains("config.json:7") && Contains("n_layer"));
  CHECK_THROWS_WITH(parsed_config(kTinyLlama + "num_experts: 8\n"), Contains("num_experts"));
  CHECK_THROWS_WITH(parsed_config(kTinyGpt2 + "n_ctx: 64\n"), Contains("config.json:7") && Contains("n_positions"));
  CHECK_THROWS_WITH(
      parsed_config("model_type: gpt2\nn_layer: 2\nn_embd: 63\nn_head: 4\nn_positions: 32\nvocab_size: 100\n"),
      Contains("config.json:4:9") && Contains("63") && Contains("multiple of 4"));
  CHECK_THROWS_WITH(
      parsed_config("model_type: gpt2\nn_layer: 0\nn_embd: 64\nn_head: 4\nn_positions: 32\nvocab_size: 100\n"),
      Contains("config.json:2"));
  CHECK_THROWS_WITH(
      parsed_config("model_type: gpt2\nn_layer: 2\nn_embd: -64\nn_head: 4\nn_positions: 32\nvocab_size: 1\n"),
      Contains("config.json:3"));
  CHECK_THROWS_WITH(parsed_config("model_type: gpt2\nvocab_size: 9000000000000000000\n"),
                    Contains("the most is 2147483647"));
  std::string uneven = kTinyLlama;
  uneven.replace(uneven.find("key_value_heads: 2"), 18, "key_value_heads: 3");
  CHECK_THROWS_WITH(parsed_config(uneven), Contains("config.json:5") && Contains("does not divide 4"));
  CHECK_THROWS_AS(parsed_config(kTinyGpt2 + "add_cross_attention: true\n"), UserError);
  CHECK_THROWS_AS(parsed_config(kTinyGpt2 + "resid_pdrop: 1.5\n"), UserError);
}

TEST_CASE("impossible batch sizes, lengths and precisions are refused") {
  const TransformerConfig gpt = parsed_config(kTinyGpt2);
  CHECK_THROWS_WITH(transformer_network(gpt, 1, 33, Precision::bf16),
                    Catch::Contains("config.json") && Catch::Contains("33") && Catch::Contains("32 learned"));
  CHECK_NOTHROW(
      transformer_network(parsed_config(kTinyLlama), 1, 33, Precision::bf16));  // rotary: no table of positions
  CHECK_THROWS_AS(transformer_network(gpt, 0, 16, Precision::bf16), UserError);
  CHECK_THROWS_AS(transformer_network(gpt, 1, 0, Precision::bf16), UserError);
  CHECK_THROWS_AS(transformer_network(gpt, 1, 16, Precision::fp8), UserError);
}

}  // namespace models_test_transformer
