// Attention of networks that are written as operators: latent attention, and learned logits.
#include <catch2/catch.hpp>

#include "tests/models/transformer_configs.hpp"

namespace models_test_operator_attention {

using namespace trainyard;

TEST_CASE("latent attention as operators has the parameters and FLOP of DeepSeek-V3 in C++", "[network][operators]") {
  const auto attention_layers = [](const char* feed_forward) {
    return std::string(R"(
    width: hidden
    operators:
      - residual:
          name: attention_residual
          width: hidden
          operators:
            - rms_norm: {name: attention_norm, width: hidden}
            - gather: {name: attention, width: hidden}
            - linear: {name: q_a, in: hidden, out: query_rank, readers: 3}
            - linear: {name: kv_a, in: hidden, out: rank, shares_input: true}
            - linear: {name: k_rotary, in: hidden, out: rotary, shares_input: true}
            - rms_norm: {name: q_a_norm, width: query_rank}
            - rms_norm: {name: kv_a_norm, width: rank}
            - linear: {name: q_b, in: query_rank, out: heads * (plain + rotary), split: columns}
            - linear: {name: kv_b, in: rank, out: heads * (plain + value), split: columns}
            - move:
                name: concat
                in: rotary + heads * (plain + rotary) + heads * (plain + value)
                out: heads * (2 * (plain + rotary) + value)
                split: columns
            - attention: {heads: heads, width: plain + rotary, value: value, causal: true}
            - linear: {name: projection, in: heads * value, out: hidden, split: rows, after_attention: true}
)") + feed_forward;
  };
  const char* dense = R"(      - residual:
          name: mlp_residual
          width: hidden
          operators:
            - rms_norm: {name: mlp_norm, width: hidden}
            - linear: {name: gate, in: hidden, out: inner, split: columns, readers: 2}
            - linear: {name: up, in: hidden, out: inner, split: columns, shares_input: true}
            - activation: {name: silu, width: inner, gated: true, split: columns}
            - linear: {name: down, in: inner, out: hidden, split: rows}
)";
  const char* experts = R"(      - residual:
          name: mlp_residual
          width: hidden
          operators:
            - rms_norm: {name: mlp_norm, width: hidden}
            - experts: {width: hidden, experts: 256, chosen: 8, inner: 2048, shared: 2048, gated: true, correction_bias: true}
)";
  const std::string document =
      "model_type: operators\ntokens: 4096\nsizes: {hidden: 7168, heads: 128, query_rank: 1536, rank: 512, plain: 128, "
      "rotary: 64, value: 128, inner: 18432, vocabulary: 129280}\nlayers:\n  - layer: embedding\n    width: hidden\n   "
      " "
      "operators: [embedding: {name: token_embedding, entries: vocabulary, width: hidden, split: rows}]\n  - layer: "
      "dense\n    repeat: 3" +
      attention_layers(dense) + "  - layer: experts\n    repeat: 58" + attention_layers(experts) +
      "  - layer: head\n    operators: [rms_norm: {width: hidden}, linear: {name: output, in: hidden, out: vocabulary, "
      "split: columns}, cross_entropy: {classes: vocabulary}]\n";
  const auto network = [](const TransformerConfig& config) {
    TransformerOptions options;
    options.flash_attention = true;
    return transformer_network(config, 1, 4096, Precision::bf16, options);
  };
  const Network listed = network(parsed_config(document)), written = network(catalog_config("deepseek-v3"));
  CHECK(listed.parameters() == Approx(written.parameters()).epsilon(1e-12));
  CHECK(listed.active_parameters() == Approx(written.active_parameters()).epsilon(1e-12));
  CHECK(listed.forward_flops().value == Approx(written.forward_flops().value).epsilon(1e-12));
}

TEST_CASE("attention sinks as operators are a number for each head", "[network][operators]") {
  const auto layer = [](const std::string& flags) {
    TransformerOptions options;
    options.flash_attention = true;
    return transformer_network(parsed_config("model_type: operators\ntokens: 64\nlayers: [{layer: block, repeat: 1, "
                                             "width: 64, operators: [linear: {name: qkv, in: 64, out: 192, parts: 3, "
                                             "first: true}, attention: {heads: 4, width: 16" +
                                             flags + "}]}]\n"),
                               1, 64, Precision::bf16, options)
        .layers.front();
  };
  CHECK(layer(", sinks: true").parameter_elements() == layer("").parameter_elements() + 4);
  CHECK(layer(", sinks: true").forward_flops() == layer("").forward_flops());
}

}  // namespace models_test_operator_attention
