// Attention of networks that are written as operators: latent attention, indexers, and learned logits; convolutions over
// images, products in groups, and streams of residuals.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "models/networks/network_entry.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_operator_attention {

using namespace trainyard;

/// The begin of a layer with latent attention: the products that read its input.
const std::string kLatentBegin = R"(
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
)";

TEST_CASE("latent attention as operators has the parameters and FLOP of DeepSeek-V3 in C++", "[network][operators]") {
  const auto attention_layers = [](const char* feed_forward) {
    return kLatentBegin + R"(            - rms_norm: {name: q_a_norm, width: query_rank}
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
)" + feed_forward;
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

TEST_CASE("sparse attention as operators has the parameters and FLOP of DeepSeek-V3.2 in C++", "[network][operators]") {
  const std::string attention =
      kLatentBegin +
      R"(            - linear: {name: indexer.k, in: hidden, out: index_head, shares_input: true, first: true}
            - linear: {name: indexer.weights, in: hidden, out: index_heads, shares_input: true, first: true}
            - layer_norm: {name: indexer.k_norm, width: index_head}
            - rms_norm: {name: q_a_norm, width: query_rank}
            - rms_norm: {name: kv_a_norm, width: rank}
            - linear: {name: q_b, in: query_rank, out: heads * (plain + rotary), split: columns}
            - linear: {name: indexer.q, in: query_rank, out: index_heads * index_head, shares_input: true, first: true}
            - kernel: {name: rotary, moved: 2 * heads * rotary, split: columns}
            - linear: {name: keys, in: heads * plain, out: heads * rank, groups: heads, split: columns}
            - kernel: {name: concat, moved: 2 * heads * (rank + rotary), split: columns}
            - indexer:
                heads: index_heads
                head: index_head
                chosen: index_keys
                attention_heads: heads
                attention_width: rank + rotary
                causal: true
            - attention:
                heads: heads
                key_value_heads: 1
                width: rank + rotary
                value: rank
                window: index_keys
                causal: true
                common_keys: true
            - linear: {name: values, in: heads * rank, out: heads * value, groups: heads, split: columns}
            - linear: {name: projection, in: heads * value, out: hidden, split: rows}
      - residual:
          name: mlp_residual
          width: hidden
          operators:
            - rms_norm: {name: mlp_norm, width: hidden}
)";
  const char* dense = R"(            - linear: {name: gate, in: hidden, out: inner, split: columns, readers: 2}
            - linear: {name: up, in: hidden, out: inner, split: columns, shares_input: true}
            - activation: {name: silu, width: inner, gated: true, split: columns}
            - linear: {name: down, in: inner, out: hidden, split: rows}
)";
  const char* experts = R"(            - experts:
                {width: hidden, experts: 256, chosen: 8, inner: 2048, shared: 2048, gated: true, correction_bias: true}
)";
  const std::string document = R"(model_type: operators
tokens: 8192
sizes: {hidden: 7168, heads: 128, query_rank: 1536, rank: 512, plain: 128, rotary: 64, value: 128, inner: 18432, vocabulary: 129280,
  index_heads: 64, index_head: 128, index_keys: 2048}
layers:
  - layer: embedding
    width: hidden
    operators: [embedding: {name: token_embedding, entries: vocabulary, width: hidden, split: rows}]
  - layer: dense
    repeat: 3)" + attention + dense +
                               "  - layer: experts\n    repeat: 58" + attention + experts + R"(  - layer: head
    operators: [rms_norm: {width: hidden}, linear: {name: output, in: hidden, out: vocabulary, split: columns},
      cross_entropy: {classes: vocabulary}]
)";
  const auto network = [](const TransformerConfig& config, int tensor) {
    TransformerOptions options;
    options.flash_attention = true;
    options.sharding.tensor = tensor;
    return transformer_network(config, 1, 8192, Precision::bf16, options);
  };
  const TransformerConfig listed_config = parsed_config(document), config = catalog_config("deepseek-v3.2");
  for (const int tensor : {1, 8}) {
    CAPTURE(tensor);
    const Network listed = network(listed_config, tensor), written = network(config, tensor);
    CHECK(listed.parameters() == Approx(written.parameters()).epsilon(1e-12));
    CHECK(listed.active_parameters() == Approx(written.active_parameters()).epsilon(1e-12));
    CHECK(listed.forward_flops().value == Approx(written.forward_flops().value).epsilon(1e-12));
    CHECK(listed.backward_flops().value == Approx(written.backward_flops().value).epsilon(1e-12));
    CHECK(gradients_are_ready_once(listed));
    for (const char* kernel : {"indexer.scores", "indexer.top_k", "attention"}) {
      const Work of_list = work_of(listed.layers[5].forward, kernel),
                 of_family = work_of(written.layers[5].forward, kernel);
      CHECK(of_list.flops == of_family.flops);
      CHECK(of_list.bytes.value == Approx(of_family.bytes.value).epsilon(1e-12));
    }
  }
  TransformerOptions context;
  context.sharding.context = 2;
  CHECK_THROWS_WITH(transformer_network(listed_config, 1, 8192, Precision::bf16, context),
                    Catch::Contains("with keys that an indexer chooses it is not modelled"));
}

TEST_CASE("a convolution over images as an operator is that of a CNN", "[network][operators]") {
  // The 3 x 3 convolutions of ResNet-50 that halve an image of 56 x 56, and a depthwise one.
  for (const auto& [stride, groups] : {std::pair{2, 1}, {1, 1}, {1, 64}}) {
    CAPTURE(stride, groups);
    const int side = 56 / stride;
    const Network cnn = make_network(
        read_network_entry(parse_document(
            fmt::format(
                "cnn:\n  input: [64, 56, 56]\n  layers: [conv: {{out: 64, kernel: 3, stride: {}, padding: same, "
                "groups: {}, bias: false}}, flatten, softmax_cross_entropy]\n",
                stride, groups),
            "x.yaml")),
        4, 1, Precision::bf16);
    const TransformerConfig config = parsed_config(fmt::format(
        "{{model_type: operators, tokens: {}, layers: [{{layer: image, width: 64, operators: [convolution_2d: "
        "{{in: 64, out: 64, side: 3, stride: {}, groups: {}, first: true, split: columns}}]}}]}}",
        side * side, stride, groups));
    const Layer listed = transformer_network(config, 4, side * side, Precision::bf16).layers.front();
    const Layer& written = cnn.layers.front();
    CHECK(listed.parameter_elements() == written.parameter_elements());
    CHECK(listed.forward_flops() == written.forward_flops());
    CHECK(listed.backward_flops() == written.backward_flops());
    CHECK(listed.forward.front().work.bytes == written.forward.front().work.bytes);
    CHECK(listed.forward.front().work.kernel == written.forward.front().work.kernel);
    CHECK(listed.saved_tensors.front().bytes == written.saved_tensors.front().bytes);
    TransformerOptions halved;
    halved.sharding.tensor = 2;
    const Layer half = transformer_network(config, 4, side * side, Precision::bf16, halved).layers.front();
    CHECK(half.parameter_elements() == listed.parameter_elements() / 2);
    CHECK(half.forward_flops() == listed.forward_flops() / 2);
  }
  CHECK_THROWS_WITH(
      parsed_config("{model_type: operators, tokens: 64, layers: [{layer: image, width: 8, operators: [linear: "
                    "{in: 8, out: 4}, convolution_2d: {in: 8, out: 8, side: 3}]}]}"),
      Catch::Contains("convolution_2d reads rows of 8 elements (in: 8), and linear before it gives 4"));
}

TEST_CASE("streams of residuals have the learned maps of their paper, and hand their rows on", "[network][operators]") {
  const auto layer = [](const std::string& operators, int streams) {
    return transformer_network(parsed_config(fmt::format(
                                   "{{model_type: operators, tokens: 64, layers: [{{layer: block, repeat: 2, width: "
                                   "{}, operators: [{}]}}]}}",
                                   streams * 32, operators)),
                               2, 64, Precision::bf16)
        .layers[1];
  };
  const Layer streams = layer("hyper_connection: {width: 32, streams: 4, operators: [linear: {in: 32, out: 32}]}", 4);
  const Layer residual = layer("residual: {width: 32, operators: [linear: {in: 32, out: 32}]}", 1);
  const double maps = (2 + 4) * 4;
  CHECK(streams.parameter_elements() == residual.parameter_elements() + maps * 4 * 32 + maps + 3);
  CHECK(streams.output == residual.output * 4);
  const double rows = 2 * 64;
  CHECK(streams.forward_flops().value == residual.forward_flops().value + 2 * rows * 4 * 32 * maps);
  // One kernel mixes: it reads the streams and the branch's output, and writes the streams.
  CHECK(work_of(streams.forward, "hyper_connection.mix").bytes.value == 2 * rows * (2 * 4 + 1) * 32);
  CHECK_THROWS_WITH(layer("hyper_connection: {width: 32, streams: 4, operators: [linear: {in: 32, out: 16}]}", 4),
                    Catch::Contains("gives rows of 32 elements"));
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
