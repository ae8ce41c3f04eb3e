// Sequences of different lengths without padding, and language models that predict only some tokens.
#include <catch2/catch.hpp>

#include "tests/models/transformer_configs.hpp"

namespace models_test_unpadded {

using namespace trainyard;

TEST_CASE("unpadded sequences have the products of their tokens, and attention within each sequence", "[transformer]") {
  const double b = 4, mean = 200, attended = 320, h = 1024, layers = 24, vocab = 30522;
  TransformerOptions options;
  options.unpadded = {mean, attended};
  const Network network = transformer_network(catalog_config("bert-large"), 4, 512, Precision::bf16, options);
  const double matrices = 2 * b * mean * (12 * layers * h * h + h * h + h * vocab);
  const double attention = layers * 4 * b * mean * attended * h;
  CHECK(network.forward_flops().value == Approx(matrices + attention).epsilon(1e-12));
  CHECK(network.backward_flops().value == Approx(2 * matrices + 2.5 * attention).epsilon(1e-12));
  CHECK(network.tokens_per_sample == 200);
  // If all sequences have the same length, they are full.
  options.unpadded = {512, 512};
  const Network full = transformer_network(catalog_config("bert-large"), 4, 512, Precision::bf16, options);
  CHECK(full.forward_flops() == network_of(catalog_config("bert-large"), 4, 512).forward_flops());
}

TEST_CASE("options that are not modelled without padding are refused", "[transformer]") {
  const auto refused = [](const TransformerOptions& options) {
    CHECK_THROWS_WITH(transformer_network(catalog_config("llama-3-8b"), 1, 512, Precision::bf16, options),
                      Catch::Contains("unpadded"));
  };
  TransformerOptions options;
  options.unpadded = {600, 600};  // more than a full sequence
  refused(options);
  options.unpadded = {200, 100};  // the mean length of a token's sequence is at least the mean length
  refused(options);
  options.unpadded = {200, 300};
  options.sharding.context = 2;
  refused(options);
  options.sharding.context = 1;
  options.flash_attention = false;
  refused(options);
}

TEST_CASE("BERT has logits of only the tokens that it predicts", "[transformer]") {
  const double b = 4, h = 1024, vocab = 30522, predictions = 76;
  const TransformerConfig all = catalog_config("bert-large", "{architectures: [BertForPreTraining]}");
  const TransformerConfig some =
      catalog_config("bert-large", "{architectures: [BertForPreTraining], max_predictions_per_seq: 76}");
  const Network network = network_of(some, 4, 512);
  CHECK(network_of(all, 4, 512).forward_flops().value - network.forward_flops().value ==
        Approx(2 * b * (512 - predictions) * (h * h + h * vocab)).epsilon(1e-12));
  CHECK(network.parameters() == network_of(all, 4, 512).parameters());
  CHECK(gradients_are_ready_once(network));
  CHECK_THROWS_WITH(catalog_config("bert-large", "{max_predictions_per_seq: 513}"), Catch::Contains("positions"));
}

}  // namespace models_test_unpadded
