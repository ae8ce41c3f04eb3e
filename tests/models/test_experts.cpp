#include <catch2/catch.hpp>

#include "sim/error.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_experts {

using namespace trainyard;

namespace {

const std::string kTinyMixtral =
    "{model_type: mixtral, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, num_key_value_heads: 2, "
    "intermediate_size: 96, max_position_embeddings: 32, vocab_size: 100, num_local_experts: 8, "
    "num_experts_per_tok: 2}";
const std::string kTinyDeepseek =
    "{model_type: deepseek_v3, num_hidden_layers: 3, hidden_size: 64, num_attention_heads: 4, intermediate_size: 96, "
    "max_position_embeddings: 32, vocab_size: 100, q_lora_rank: 24, kv_lora_rank: 16, qk_nope_head_dim: 12, "
    "qk_rope_head_dim: 4, v_head_dim: 10, n_routed_experts: 8, n_shared_experts: 2, num_experts_per_tok: 2, "
    "moe_intermediate_size: 20, first_k_dense_replace: 1}";

}  // namespace

TEST_CASE("the forward FLOPs of experts are those of the chosen experts alone", "[transformer]") {
  const double b = 2, s = 4096, h = 4096, key = 1024, f = 14336, layers = 32, vocab = 32000, tokens = b * s;
  const double matrices = 2 * tokens * (layers * (2 * h * h + 2 * h * key + h * 8 + 2 * 3 * h * f) + h * vocab);
  const double attention = layers * 2 * b * s * s * h;
  const Network network = network_of(catalog_config("mixtral-8x7b"), 2, 4096);
  CHECK(network.forward_flops().value == matrices + attention);
  CHECK(network.backward_flops().value == 2 * matrices + 2.5 * attention);
}

TEST_CASE("an expert's product reads its own weights", "[transformer]") {
  const Layer layer = network_of(parsed_config(kTinyMixtral), 2, 16).layers[1];
  const Work gate = work_of(layer.forward, "experts.gate");
  CHECK(gate.flops.value == 2.0 * (32 * 2) * 64 * 96);
  CHECK(gate.bytes.value == 2.0 * 8 * (8 * 64 + 64 * 96 + 8 * 96));
  CHECK(work_of(layer.backward, "experts.gate.wgrad").bytes.value == gate.bytes.value);
  CHECK(work_of(layer.forward, "permute").bytes.value == 2.0 * 32 * 64 * 3);
  CHECK(work_of(layer.forward, "router").flops.value == 2.0 * 32 * 64 * 8);
  // With one token, two of the eight experts get a row.
  const Layer token = network_of(parsed_config(kTinyMixtral), 1, 1).layers[1];
  CHECK(work_of(token.forward, "experts.gate").bytes.value == 2.0 * 2 * (64 + 64 * 96 + 96));
}

TEST_CASE("a layer of experts keeps each row once for each of its experts", "[transformer]") {
  const Network experts = network_of(parsed_config(kTinyMixtral), 2, 16);
  const double n = 32, k = 2, h = 64, q = 64, kv = 32, f = 96, a = 4;
  const double attention = 2 * n * (h + h + q + 2 * kv + q) + 4 * n * a + 4 * n;
  const double router = 2 * n * h + 2 * n * h + 4 * n + 4 * n * 8 + (4 + 8) * n * k;  // norm and router inputs, scores
  const double inner = 2 * n * k * (h + 4 * f + h);  // permuted rows; gate, up, its activation, product; outputs
  CHECK(experts.layers[1].activations().value == attention + router + inner);
  CHECK(gradients_are_ready_once(experts));
}

TEST_CASE("dense layers come first, shared experts see every token", "[transformer]") {
  const Network network = network_of(parsed_config(kTinyDeepseek), 2, 16);
  CHECK(gradients_are_ready_once(network));
  CHECK_THROWS_AS(work_of(network.layers[1].forward, "router"), UserError);
  CHECK(work_of(network.layers[1].forward, "gate").flops.value == 2.0 * 32 * 64 * 96);
  CHECK(work_of(network.layers[2].forward, "shared.gate").flops.value == 2.0 * 32 * 64 * 40);
  CHECK(work_of(network.layers[2].forward, "experts.gate").flops.value == 2.0 * 64 * 64 * 20);
}

TEST_CASE("latent attention has queries and keys of two parts, and values of another width", "[transformer]") {
  const TransformerConfig config = parsed_config(kTinyDeepseek);
  const Layer layer = network_of(config, 2, 16).layers[1];
  const double n = 32;
  CHECK(work_of(layer.forward, "q_a").flops.value == 2 * n * 64 * 24);
  CHECK(work_of(layer.forward, "q_b").flops.value == 2 * n * 24 * (4 * 16));
  CHECK(work_of(layer.forward, "kv_a").flops.value == 2 * n * 64 * (16 + 4));
  CHECK(work_of(layer.forward, "kv_b").flops.value == 2 * n * 16 * (4 * (12 + 10)));
  CHECK(work_of(layer.forward, "projection").flops.value == 2 * n * (4 * 10) * 64);
  const double pairs = 2 * 4 * 16 * 16 / 2;  // samples, heads; causal
  CHECK(work_of(layer.forward, "attention").flops.value == 2 * pairs * (16 + 10));
  CHECK(work_of(layer.backward, "attention.backward").flops.value == 2 * pairs * (3 * 16 + 2 * 10));
  const Layer unfused = transformer_network(config, 2, 16, Precision::bf16, without_flash_attention()).layers[1];
  CHECK(work_of(unfused.forward, "scores").flops.value == 2 * 2 * pairs * 16);
  CHECK(work_of(unfused.forward, "context").flops.value == 2 * 2 * pairs * 10);
}

TEST_CASE("queries may be projected in one step", "[transformer]") {
  // DeepSeek-V2-Lite: 15.7 billion parameters, 2.4 billion of them active without the embeddings.
  const Network lite = network_of(
      parsed_config("{model_type: deepseek_v2, num_hidden_layers: 27, hidden_size: 2048, num_attention_heads: 16, "
                    "intermediate_size: 10944, max_position_embeddings: 163840, vocab_size: 102400, q_lora_rank: null, "
                    "kv_lora_rank: 512, qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128, "
                    "n_routed_experts: 64, n_shared_experts: 2, num_experts_per_tok: 6, moe_intermediate_size: 1408, "
                    "first_k_dense_replace: 1}"),
      1, 16);
  CHECK(lite.parameters() == 15'706'484'224);
  CHECK(lite.active_parameters() == Approx(2'661'150'208).epsilon(1e-12));
}

TEST_CASE("a layer that predicts a further token has a block, a projection and the model's own vocabulary",
          "[transformer]") {
  const auto config = [](int layers) {
    TransformerConfig c = parsed_config(kTinyDeepseek);
    c.further_tokens = layers;
    return c;
  };
  const Network plain = network_of(config(0), 2, 16), one = network_of(config(1), 2, 16);
  const Layer& block = plain.layers.at(3);  // with experts
  const double h = 64, tokens = 2 * 16, vocab = 100;
  CHECK(one.layers.size() == plain.layers.size());
  CHECK(one.parameters() - plain.parameters() == block.parameter_elements() + 2 * h * h + 3 * h);
  CHECK(one.forward_flops().value - plain.forward_flops().value ==
        Approx(block.forward_flops().value + 2 * tokens * (2 * h * h + h * vocab)));
  const Network two = network_of(config(2), 2, 16);
  CHECK(two.parameters() - one.parameters() == one.parameters() - plain.parameters());
  CHECK(read_transformer(merge_nodes(parse_document(kTinyDeepseek, "config.json"),
                                     parse_document("{mtp_num_layers: 1}", "over.json")))
            .further_tokens == 1);
}

TEST_CASE("impossible experts are refused at their place", "[transformer]") {
  const auto config_with = [](const std::string& text, const std::string& over) {
    return read_transformer(merge_nodes(parse_document(text, "config.json"), parse_document(over, "over.json")));
  };
  using Catch::Contains;
  CHECK_THROWS_WITH(config_with(kTinyMixtral, "{num_experts_per_tok: 9}"),
                    Contains("over.json:1") && Contains("8 experts"));
  CHECK_THROWS_WITH(config_with(kTinyDeepseek, "{moe_layer_freq: 2}"),
                    Contains("over.json:1") && Contains("expected 1"));
  CHECK_THROWS_WITH(config_with(kTinyDeepseek, "{attention_bias: true}"), Contains("latent"));
  CHECK_THROWS_WITH(config_with(kTinyDeepseek, "{kv_lora_rnak: 8}"), Contains("kv_lora_rank"));
  CHECK_THROWS_WITH(config_with(kTinyMixtral, "{num_experts: 8}"), Contains("num_experts_per_tok"));
}

}  // namespace models_test_experts
