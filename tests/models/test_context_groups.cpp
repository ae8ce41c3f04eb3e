// Context parallelism of two kinds at once: all-to-all in groups, rings between them (USP, Fang & Zhao 2024).
#include <catch2/catch.hpp>

#include "tests/models/transformer_configs.hpp"

namespace models_test_context_groups {

using namespace trainyard;

namespace {

constexpr std::int64_t kSeq = 512, kSamples = 4;

Network sharded_network(const Sharding& sharding, TransformerOptions options = {}) {
  options.sharding = sharding;
  return transformer_network(parsed_config(R"({model_type: llama, vocab_size: 4096, num_hidden_layers: 2,
    hidden_size: 1024, num_attention_heads: 16, num_key_value_heads: 8, intermediate_size: 2816,
    max_position_embeddings: 2048})"),
                             kSamples, kSeq, Precision::bf16, options);
}

}  // namespace

TEST_CASE("context ranks exchange heads in groups, and keys and values between the groups", "[sharding][usp]") {
  const auto block = [](const Sharding& s) { return sharded_network(s).layers[1]; };
  const auto same = [](const Layer& a, const Layer& b) {
    CHECK(names(a.forward_exchanges) == names(b.forward_exchanges));
    CHECK(names(a.backward_exchanges) == names(b.backward_exchanges));
    REQUIRE(a.forward.size() == b.forward.size());
    REQUIRE(a.backward.size() == b.backward.size());
    for (std::size_t k = 0; k < a.forward.size(); ++k) {
      CHECK(a.forward[k].name == b.forward[k].name);
      CHECK(a.forward[k].work == b.forward[k].work);
    }
    for (std::size_t k = 0; k < a.backward.size(); ++k) CHECK(a.backward[k].work == b.backward[k].work);
    for (std::size_t e = 0; e < std::min(a.backward_exchanges.size(), b.backward_exchanges.size()); ++e) {
      CHECK(a.backward_exchanges[e].axis == b.backward_exchanges[e].axis);
      CHECK(a.backward_exchanges[e].bytes == b.backward_exchanges[e].bytes);
    }
    CHECK(a.activations() == b.activations());
    CHECK(a.forward_transient == b.forward_transient);
    CHECK(a.backward_transient == b.backward_transient);
  };
  const Layer ring = block({{.context = 8}, {}}),
              heads = block({{.context = 8}, {.context_exchange = ContextExchange::all_to_all}});
  same(block({{.context = 8, .ulysses = 1}, {}}), ring);
  same(block({{.context = 8, .ulysses = 8}, {}}), heads);

  const Layer both = block({{.context = 8, .ulysses = 2}, {}});
  CHECK(both.forward_flops() == ring.forward_flops());
  CHECK(both.backward_flops() == ring.backward_flops());
  CHECK(both.attention.value == Approx(ring.attention.value).epsilon(1e-12));
  CHECK(names(both.forward_exchanges) == std::vector<std::string>{"attention.heads", "attention.keys.0",
                                                                  "attention.keys.1", "attention.keys.2",
                                                                  "attention.tokens"});
  CHECK(in_order(both.forward_exchanges, both.forward.size()));
  CHECK(in_order(both.backward_exchanges, both.backward.size()));
  // A rank has 64 of 512 tokens: it exchanges queries of 1024 elements, keys and values of 512. Then it has half of the
  // heads of 128 tokens, whose keys and values go round four ranks.
  const double tokens = kSamples * kSeq / 8.0;
  const Exchange &exchange = exchange_of(both.forward_exchanges, "attention.heads"),
                 &keys = exchange_of(both.forward_exchanges, "attention.keys.0");
  CHECK(exchange.axis == Axis::ulysses);
  CHECK(exchange.bytes.value == 2 * tokens * (1024 + 2 * 512));
  CHECK(keys.axis == Axis::ring);
  CHECK(keys.bytes.value == 2 * (2 * tokens) * 2 * 256);
  CHECK(keys.bytes ==
        exchange_of(ring.forward_exchanges, "attention.keys.0").bytes);  // but four steps instead of eight
  CHECK(exchange_of(both.backward_exchanges, "attention.key_gradients.3").axis == Axis::ring);
  CHECK(exchange_of(both.backward_exchanges, "attention.tokens.backward").axis == Axis::ulysses);

  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(block({{.context = 8, .ulysses = 3}, {}}), Contains("must divide the ranks; nearest: 2 or 4"));
  CHECK_THROWS_WITH(block({{.tensor = 4, .context = 8, .ulysses = 4}, {}}),
                    Contains("all-to-all among 4 gives each rank a part of the 2 key-value heads"));
  TransformerOptions unfused;
  unfused.flash_attention = false;
  CHECK_THROWS_WITH(sharded_network({{.context = 4, .ulysses = 2}, {}}, unfused),
                    Contains("ring attention is flash attention"));
}

}  // namespace models_test_context_groups
