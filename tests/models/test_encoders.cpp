#include <catch2/catch.hpp>

#include "sim/error.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_encoders {

using namespace trainyard;

namespace {

const std::string kTinyBert =
    "{model_type: bert, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, intermediate_size: 256, "
    "max_position_embeddings: 32, vocab_size: 100}";
const std::string kTinyVit =
    "{model_type: vit, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4, intermediate_size: 256, "
    "image_size: 32, patch_size: 8, num_labels: 10}";
const std::string kTinyT5 =
    "{model_type: t5, num_layers: 2, d_model: 64, num_heads: 4, d_kv: 8, d_ff: 96, vocab_size: 100}";

}  // namespace

TEST_CASE("BERT's forward FLOPs are those of its matrices and of all pairs of tokens", "[transformer]") {
  const double b = 4, s = 512, h = 1024, layers = 24, vocab = 30522, tokens = b * s;
  const double matrices = 2 * tokens * (12 * layers * h * h + h * h + h * vocab);
  const double attention = layers * 4 * b * s * s * h;  // there is no mask
  const TransformerConfig config = catalog_config("bert-large");
  const Network flash = network_of(config, 4, 512);
  CHECK(flash.forward_flops().value == matrices + attention);
  CHECK(flash.backward_flops().value == 2 * matrices + 2.5 * attention);
  const Network unfused = transformer_network(config, 4, 512, Precision::bf16, without_flash_attention());
  CHECK(unfused.forward_flops().value == matrices + attention);
  CHECK(unfused.backward_flops().value == 2 * (matrices + attention));
}

TEST_CASE("a BERT layer keeps what Korthikanti et al. count", "[transformer]") {
  const double b = 4, s = 512, h = 1024, a = 16;
  const double norm_statistics = 2 * 8 * b * s;  // in addition to the paper: two fp32 numbers for each row and norm
  const TransformerConfig config = catalog_config("bert-large");
  const Network unfused = transformer_network(config, 4, 512, Precision::bf16, without_flash_attention());
  CHECK(unfused.layers[1].activations().value == 34 * s * b * h + 5 * a * s * s * b + norm_statistics);
  CHECK(network_of(config, 4, 512).layers[1].activations().value == 34 * s * b * h + 4 * a * s * b + norm_statistics);
}

TEST_CASE("BERT's norms come after its sums, and its head depends on the architecture", "[transformer]") {
  const Network network = network_of(parsed_config(kTinyBert), 2, 16);
  CHECK(network.layers[1].forward.back().name == "mlp_norm");
  for (const char* head : {"BertForMaskedLM", "BertForPreTraining", "BertModel"}) {
    Node node = parse_document(kTinyBert, "config.json");
    node = merge_nodes(node, parse_document(std::string("{architectures: [") + head + "]}", "over.json"));
    CHECK(gradients_are_ready_once(network_of(read_transformer(node), 2, 16)));
  }
  const std::string other =
      kTinyBert.substr(0, kTinyBert.size() - 1) + ", architectures: [BertForTokenKlassification]}";
  CHECK_THROWS_WITH(parsed_config(other), Catch::Contains("not modelled") && Catch::Contains("BertForMaskedLM"));
  const std::string caching = kTinyBert.substr(0, kTinyBert.size() - 1) + ", gradient_checkpointing: true}";
  CHECK_THROWS_AS(parsed_config(caching), UserError);
}

TEST_CASE("a vision transformer's multiply-adds are those that torchvision publishes", "[transformer]") {
  CHECK(network_of("vit-b-16").forward_flops().value / 2 == Approx(17.56e9).epsilon(5e-4));
  CHECK(network_of("vit-l-16").forward_flops().value / 2 == Approx(61.55e9).epsilon(5e-4));
}

TEST_CASE("a vision transformer's sequence is its patches and the class token", "[transformer]") {
  const TransformerConfig config = parsed_config(kTinyVit);
  CHECK(config.max_position_embeddings == 17);
  const Network network = network_of(config, 2, 17);
  CHECK(network.tokens_per_sample == 17);
  CHECK(gradients_are_ready_once(network));
  CHECK(work_of(network.layers[0].forward, "patch_embedding").flops.value == 2 * (2 * 16) * (8 * 8 * 3) * 64.0);
  CHECK(work_of(network.layers.back().forward, "classifier").flops.value == 2 * 2 * 64 * 10.0);
  CHECK_THROWS_WITH(network_of(config, 2, 16), Catch::Contains("17 tokens"));
  CHECK_THROWS_WITH(parsed_config("{model_type: vit, num_hidden_layers: 1, hidden_size: 8, num_attention_heads: 1, "
                                  "intermediate_size: 8, image_size: 8}"),
                    Catch::Contains("image_size"));
  CHECK(parsed_config("{model_type: vit, num_hidden_layers: 1, hidden_size: 8, num_attention_heads: 1, "
                      "intermediate_size: 8, id2label: {0: a, 1: b, 2: c}}")
            .num_labels == 3);
}

TEST_CASE("T5's forward FLOPs are those of two stacks, and of queries of one with keys of the other", "[transformer]") {
  const double b = 2, s = 512, t = 128, h = 768, inner = 768, f = 3072, layers = 12, vocab = 32128;
  const double encoder = 2 * b * s * (4 * h * inner + 2 * h * f) + 4 * b * s * s * inner;
  const double decoder = 2 * b * t * (4 * h * inner + 2 * h * f) + 4 * b * t * t * inner;
  const double cross = 2 * b * (t + s) * 2 * h * inner + 4 * b * t * s * inner;
  const double forward = layers * (encoder + decoder + cross) + 2 * b * t * h * vocab;
  const TransformerConfig config = catalog_config("t5-base");
  const Network network = network_of(config, 2, 512);
  CHECK(network.tokens_per_sample == 512 + 128);
  CHECK(network.forward_flops().value == forward);
  const Network unfused = transformer_network(config, 2, 512, Precision::bf16, without_flash_attention());
  CHECK(unfused.forward_flops().value == forward);
  CHECK(unfused.backward_flops().value == 2 * forward);
}

TEST_CASE("T5's parameters are active for the tokens of their half of the network", "[transformer]") {
  const TransformerConfig config = parsed_config(kTinyT5);
  TransformerOptions options;
  options.decoder_seq_length = 16;
  const Network network = transformer_network(config, 1, 16, Precision::bf16, options);
  const double table = 100 * 64;
  CHECK(network.active_parameters() == table + (network.parameters() - table) / 2);
  const Layer& decoder = network.layers[5];  // embedding, two blocks, norm, decoder's embedding
  CHECK(decoder.name == "decoder block 0");
  for (const ParameterTensor& tensor : decoder.parameters) CHECK(tensor.active_share == 0.5);
}

TEST_CASE("T5's decoder blocks pass on the encoder's output", "[transformer]") {
  const TransformerConfig config = parsed_config(kTinyT5);
  const Network network = network_of(config, 2, 16);
  const double encoder = 2 * 16 * 64 * 2, decoder = 2 * 4 * 64 * 2;
  REQUIRE(network.layers.size() == 8);
  CHECK(network.layers[3].output.value == encoder);
  CHECK(network.layers[4].output.value == encoder + decoder);
  CHECK(network.layers[5].output.value == encoder + decoder);
  CHECK(network.layers[6].output.value == decoder);
  const auto keeps_encoder_output = [](const Layer& layer) {
    return std::ranges::any_of(layer.saved_tensors, [](auto& kept) { return kept.name == "cross_k.input"; });
  };
  CHECK(keeps_encoder_output(network.layers[5]));
  CHECK_FALSE(keeps_encoder_output(network.layers[6]));  // the same tensor
}

TEST_CASE("T5, tied or not, gated or not, makes each gradient ready once", "[transformer]") {
  for (const char* over :
       {"{}", "{tie_word_embeddings: false}", "{feed_forward_proj: gated-gelu}", "{num_decoder_layers: 3}"})
    for (const bool flash : {true, false}) {
      const Node node = merge_nodes(parse_document(kTinyT5, "t5.json"), parse_document(over, "over.json"));
      TransformerOptions options;
      options.flash_attention = flash;
      const Network network = transformer_network(read_transformer(node), 2, 16, Precision::bf16, options);
      CHECK(gradients_are_ready_once(network));
    }
  const TransformerConfig gated = catalog_config("t5-base",
                                                 "{feed_forward_proj: gated-gelu, d_ff: 2048, "
                                                 "tie_word_embeddings: false}");
  CHECK(network_of(gated, 1, 512).parameters() == 247'577'856);  // google/t5-v1_1-base
}

TEST_CASE("a T5 layer also keeps a mask of its inner dropout", "[transformer]") {
  const TransformerConfig config = catalog_config("t5-large");
  const double b = 2, s = 512, h = 1024, a = 16, f = 4096;
  const Network unfused = transformer_network(config, 2, 512, Precision::bf16, without_flash_attention());
  const double norm_statistics = 2 * 4 * b * s;
  CHECK(unfused.layers[2].activations().value == 34 * s * b * h + b * s * f + 5 * a * s * s * b + norm_statistics);
  const double bias = s * s * (2 * a + 8);  // in the first block: for each head and pair, and the buckets of the pairs
  CHECK(unfused.layers[1].activations().value - unfused.layers[2].activations().value == bias);
}

}  // namespace models_test_encoders
