// Networks that were written from their papers with the manual alone, conditions by the number of a block, and products with
// the weight of another.
#include <catch2/catch.hpp>

#include <string>

#include "tests/models/transformer_configs.hpp"

namespace models_test_operator_papers {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

Network built(const std::string& document, double tokens) {
  return transformer_network(parsed_config(document), 1, static_cast<std::int64_t>(tokens), Precision::bf16, {});
}

}  // namespace

TEST_CASE("MLP-Mixer B/16, written from its paper, has the published parameters and FLOP", "[network][operators]") {
  // Tolstikhin et al. 2021, table 1 and section 2: 59 million parameters. timm's mixer_b16_224 has 59.88 million, and 12.61
  // billion multiply-adds for an image.
  const Network network = built(R"(model_type: operators
name: mlp-mixer-b-16
tokens: 196
sizes: {patches: 196, hidden: 768, token_mix: 384, channel_mix: 3072, classes: 1000}
layers:
  - layer: patches
    width: hidden
    operators:
      - linear: {name: patch, in: 16 * 16 * 3, out: hidden, bias: true, first: true}
  - layer: mixer
    repeat: 12
    width: hidden
    operators:
      - residual:
          name: token_residual
          width: hidden
          operators:
            - layer_norm: {name: token_norm, width: hidden}
            - linear: {name: token_1, rows: hidden, in: patches, out: token_mix, bias: true}
            - activation: {name: token_gelu, rows: hidden, width: token_mix}
            - linear: {name: token_2, rows: hidden, in: token_mix, out: patches, bias: true}
      - residual:
          name: channel_residual
          width: hidden
          operators:
            - layer_norm: {name: channel_norm, width: hidden}
            - linear: {name: channel_1, in: hidden, out: channel_mix, bias: true}
            - activation: {name: channel_gelu, width: channel_mix}
            - linear: {name: channel_2, in: channel_mix, out: hidden, bias: true}
  - layer: head
    operators:
      - layer_norm: {name: last_norm, width: hidden}
      - kernel: {name: mean, moved: hidden}
      - linear: {name: classifier, rows: sample, in: hidden, out: classes, bias: true}
      - cross_entropy: {rows: sample, classes: classes}
)",
                                196);
  CHECK(network.parameters() == 59'880'472);
  CHECK(network.forward_flops().value == Approx(2 * 12.61e9).epsilon(0.005));
}

TEST_CASE("RecurrentGemma 2B, written from its paper, has the parameters of its checkpoint", "[network][operators]") {
  // Botev et al. 2024, table 1; De et al. 2024 (Griffin), section 2: 2.7 billion parameters, 0.7 of them in the embedding.
  const Network network = built(R"(model_type: operators
name: recurrent-gemma-2b
tokens: 8192
sizes: {hidden: 2560, lru: 2560, heads: 10, key_value_heads: 1, head: 256, inner: 7680, window: 2048, vocabulary: 256000}
layers:
  - layer: embedding
    width: hidden
    operators:
      - embedding: {name: token_embedding, entries: vocabulary, width: hidden, split: rows}
  - pattern: RRARRARRARRARRARRARRARRARR
    layers:
      - layer: R
        width: hidden
        operators:
          - residual:
              name: recurrent_residual
              width: hidden
              operators:
                - rms_norm: {name: recurrent_norm, width: hidden}
                - linear: {name: linear_y, in: hidden, out: lru, bias: true, readers: 2}
                - linear: {name: linear_x, in: hidden, out: lru, bias: true, shares_input: true}
                - convolution: {width: lru, taps: 4, bias: true}
                - linear: {name: gates, in: lru, out: 2 * lru, groups: heads, bias: true}
                - kernel: {name: rg_lru, moved: 4 * lru, kept: 3 * lru, parameters: lru, out: lru, sequential: true}
                - activation: {name: gelu, width: lru}
                - multiply: {width: lru}
                - linear: {name: linear_out, in: lru, out: hidden, bias: true}
          - residual:
              name: mlp_residual
              width: hidden
              operators:
                - rms_norm: {name: mlp_norm, width: hidden}
                - linear: {name: gate, in: hidden, out: inner, bias: true, readers: 2}
                - linear: {name: up, in: hidden, out: inner, bias: true, shares_input: true}
                - activation: {name: gelu, width: inner, gated: true}
                - linear: {name: down, in: inner, out: hidden, bias: true}
      - layer: A
        width: hidden
        operators:
          - residual:
              name: attention_residual
              width: hidden
              operators:
                - rms_norm: {name: attention_norm, width: hidden}
                - linear: {name: qkv, in: hidden, out: (heads + 2) * head}
                - attention: {heads: heads, key_value_heads: 1, width: head, window: window, causal: true}
                - linear: {name: projection, in: heads * head, out: hidden, bias: true, after_attention: true}
          - residual:
              name: mlp_residual
              width: hidden
              operators:
                - rms_norm: {name: mlp_norm, width: hidden}
                - linear: {name: gate, in: hidden, out: inner, bias: true, readers: 2}
                - linear: {name: up, in: hidden, out: inner, bias: true, shares_input: true}
                - activation: {name: gelu, width: inner, gated: true}
                - linear: {name: down, in: inner, out: hidden, bias: true}
  - layer: head
    operators:
      - rms_norm: {name: final_norm, width: hidden}
      - linear: {name: output, in: hidden, out: vocabulary, split: columns, tied: token_embedding}
      - cross_entropy: {classes: vocabulary}
)",
                                8192);
  CHECK(network.parameters() == 2'682'862'080);
  CHECK(network.layers.front().parameter_elements() == 256000.0 * 2560);
  // Products read 2 FLOP a weight and token; the gates are products in ten groups.
  const double h = 2560, tokens = 8192, mlp = 3 * h * 7680, recurrent = 3 * h * h + 2 * h * 256,
               attention = h * 12 * 256 + h * h;
  const double pairs = tokens * 2048 - 2048.0 * 2048 / 2;  // keys in the window of a causal token
  CHECK(
      network.forward_flops().value ==
      Approx(2 * tokens * (26 * mlp + 18 * recurrent + 8 * attention + h * 256000) + 8 * 4 * pairs * h).epsilon(0.005));
}

TEST_CASE("conditions in a group read the number of the block", "[network][operators]") {
  // The blocks 3 and 4 have a copy, and block 2 has none.
  const Network network = built(
      "{model_type: operators, tokens: 8, layers: [{layer: first, repeat: 2, width: 8, operators: [linear: {in: 8, "
      "out: "
      "8}]}, {repeat: 3, layers: [{layer: M, width: 8, operators: [linear: {in: 8, out: 8}, move: {in: 8, out: 8, "
      "when: "
      "\"max(0, block - 2)\"}]}]}]}",
      8);
  REQUIRE(network.layers.size() == 5);
  CHECK(network.layers[3].forward.size() == network.layers[2].forward.size() + 1);
  CHECK(network.layers[4].forward.size() == network.layers[3].forward.size());
  // A layer of a group that follows itself counts as many blocks.
  const Network repeated = built(
      "{model_type: operators, tokens: 8, layers: [{repeat: 2, layers: [{layer: A, repeat: 2, width: 8, operators: "
      "[linear: "
      "{in: 8, out: 8}]}, {layer: B, width: 8, operators: [linear: {in: 8, out: 8}, move: {in: 8, out: 8, when: "
      "\"max(0, "
      "block - 2)\"}]}]}]}",
      8);
  CHECK(repeated.layers[2].forward.size() + 1 == repeated.layers[5].forward.size());  // blocks 2 and 5
  CHECK_THROWS_WITH(
      parsed_config("{model_type: operators, tokens: 8, layers: [{layer: M, width: 8, operators: [move: {in: "
                    "8, out: 8, when: block}]}]}"),
      Contains("no size \"block\""));
  CHECK_THROWS_WITH(parsed_config("{model_type: operators, tokens: 8, sizes: {block: 8}, layers: [{layer: M, width: 8, "
                                  "operators: [move: {in: block, out: 8}]}]}"),
                    Contains("block has a meaning of its own"));
}

TEST_CASE("a product of the last layer has the weight of an earlier one, which counts once", "[network][operators]") {
  const auto network = [](const std::string& second) {
    return built(
        "{model_type: operators, tokens: 8, layers: [{layer: head, operators: [linear: {name: one, in: 8, out: 4}, "
        "move: {in: 4, out: 8}, linear: {name: two, " +
            second + "}]}]}",
        8);
  };
  const Network shared = network("in: 8, out: 4, tied: one"), apart = network("in: 8, out: 4");
  CHECK(shared.parameters() == 32);
  CHECK(apart.parameters() == 64);
  CHECK(shared.forward_flops().value == apart.forward_flops().value);
  CHECK_THROWS_WITH(network("in: 8, out: 6, tied: one"),
                    Contains("two: out is 6, and the out of the product to which it is tied is 4"));
}

}  // namespace models_test_operator_papers
