// Engines whose GPUs split layers, hold copies of them and share the experts.

#include "tests/scenarios/loops.hpp"

namespace scenarios_test_engine_degrees {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

/// What an engine of Qwen3 30B sends: the largest bytes of each kind of exchange, and their number.
struct Sent {
  double reduced = 0, dealt = 0;
  int reductions = 0, deals = 0;
};

struct Degrees {
  int tensor = 1, data = 1, expert = 1;
};

DecodeCosts engine(const Degrees& degrees, Sent& sent, const char* network = "qwen3-30b-a3b", double skew = 0) {
  const Catalog catalog;
  const Scenario s = loop_scenario();
  EngineLayout layout{.tensor = degrees.tensor, .data = degrees.data, .expert = degrees.expert};
  layout.memory_share = 0.9;
  Engine skewed = s.post_training->engine;
  skewed.expert_skew = skew;
  return {read_network_entry(catalog.resolve("network", Node::scalar_node(network))),
          skewed,
          s.post_training->generators.node.gpu,
          layout,
          [&sent](Bytes bytes) {
            sent.reduced = std::max(sent.reduced, bytes.value);
            ++sent.reductions;
            return Seconds{};
          },
          [&sent](Bytes bytes) {
            sent.dealt = std::max(sent.dealt, bytes.value);
            ++sent.deals;
            return Seconds{1};
          }};
}

constexpr const char* kExperts = "post-training-qwen3-235b-512xh100";

}  // namespace

TEST_CASE("an engine waits for the GPUs with the most popular experts", "[post-training]") {
  const Degrees copies{1, 8, 8}, split{8, 1, 8};
  Sent even, uneven, few, all;
  const DecodeTime even_time = engine(copies, even).decode(2048, 1000),
                   uneven_time = engine(copies, uneven, "qwen3-30b-a3b", 1).decode(2048, 1000);
  // Every token chooses the most popular experts, as many as it has: one GPU gets all tokens for each of those that it
  // has, and the mean over deals of 8 experts to 8 GPUs has more than one on the fullest.
  engine(copies, all, "qwen3-30b-a3b", 10).decode(2048, 1000);
  engine(copies, few, "qwen3-30b-a3b", 0.5).decode(2048, 1000);
  CHECK(uneven_time.products > even_time.products);
  CHECK(even.dealt < few.dealt);
  CHECK(few.dealt < uneven.dealt);
  CHECK(uneven.dealt < all.dealt);
  CHECK(all.dealt > 2 * even.dealt);
  CHECK(all.dealt < 4 * even.dealt);
  // Equally popular experts make no part busier, however their shares are rounded.
  for (const int copies_of_layers : {2, 4, 8, 16, 32, 64, 128}) {
    Sent equal, other;
    CHECK_NOTHROW(engine({1, copies_of_layers, copies_of_layers}, equal).decode(2048, 1000));
    CHECK_NOTHROW(engine({1, copies_of_layers, copies_of_layers}, other, "qwen3-next-80b-a3b").decode(2048, 1000));
  }
  Sent unused;
  CHECK(engine(split, unused, "qwen3-30b-a3b", 1).decode(2048, 1000).products >
        engine(split, unused).decode(2048, 1000).products);
}

TEST_CASE("experts dealt to the GPUs of a tensor-parallel engine add no exchange and no weights", "[post-training]") {
  Sent split_sent, dealt_sent;
  const DecodeCosts split = engine({8, 1, 1}, split_sent), dealt = engine({8, 1, 8}, dealt_sent);
  CHECK(dealt.weights().value == split.weights().value);
  CHECK(dealt.cache(1000).value == split.cache(1000).value);
  const DecodeTime split_time = split.decode(512, 1000), dealt_time = dealt.decode(512, 1000);
  CHECK(dealt_sent.reductions == split_sent.reductions);
  CHECK(dealt_sent.reduced == split_sent.reduced);
  CHECK(dealt_sent.deals == 0);
  // Whole experts have wider products for the same weights, which kernels compute at least as fast.
  CHECK(dealt_time.products <= split_time.products * 1.001);
  CHECK(dealt_time.cache.value == split_time.cache.value);
}

TEST_CASE("copies of an engine send the tokens of each GPU to their experts", "[post-training]") {
  Sent sent_of_eight, sent_of_four;
  const DecodeCosts eight_copies = engine({1, 8, 8}, sent_of_eight), four_copies = engine({2, 4, 8}, sent_of_four);
  eight_copies.decode(512, 1000);
  four_copies.decode(512, 1000);
  // Each of 8 GPUs has 64 of 512 tokens, and sends a row of 2,048 numbers in bf16 to each of 8 experts.
  CHECK(sent_of_eight.dealt == Approx(64 * 8 * 2048 * 2));
  CHECK(sent_of_four.dealt == Approx(sent_of_eight.dealt));
  CHECK(sent_of_four.deals == sent_of_eight.deals);
  CHECK(four_copies.decode(512, 1000).exchanges.value == Approx(2 * 48));  // it has 48 layers
  CHECK(sent_of_eight.reductions == 0);
  // Two GPUs sum the outputs of the attention of their 128 sequences.
  CHECK(sent_of_four.reduced == Approx(128 * 2048 * 2));
  CHECK(four_copies.weights() < eight_copies.weights());
  // The mean over all GPUs: each of two copies' GPUs has half of the heads, and the copies are half as many.
  CHECK(four_copies.cache(1000).value == Approx(eight_copies.cache(1000).value));
}

TEST_CASE("a loop runs engines with tensor, data and expert parallelism together", "[post-training]") {
  const auto changed = [](const char* tensor, const char* expert) {
    return Overrides{{"post_training.generation.tensor_parallel", tensor},
                     {"post_training.generation.expert_parallel", expert},
                     {"post_training.prompts", "64"},
                     {"cluster.nodes", "18"},
                     {"post_training.generation.nodes", "2"},
                     {"post_training.schedule", "synchronous"},
                     {"post_training.staleness", "null"}};
  };
  const PostTrainingResult copies = simulated_loop(changed("1", "16"), kExperts),
                           pairs = simulated_loop(changed("2", "16"), kExperts),
                           node = simulated_loop(changed("8", "8"), kExperts);
  CHECK(copies.engines == 1);
  CHECK(pairs.engines == 1);
  CHECK(node.engines == 2);
  CHECK(pairs.memory.weights < copies.memory.weights);
  for (const PostTrainingResult* r : {&copies, &pairs, &node}) CHECK(r->parts.exchanges.value > 0);
  // `data_parallel` states what follows from the other two.
  Overrides stated = changed("2", "16");
  stated.emplace_back("post_training.generation.data_parallel", "8");
  CHECK(simulated_loop(stated, kExperts).step_time == pairs.step_time);
}

TEST_CASE("degrees of an engine that do not match are refused with the nearest value", "[post-training][errors]") {
  const auto refused = [](const char* tensor, const char* data, const char* expert, const std::string& words) {
    Overrides changes{{"post_training.generation.tensor_parallel", tensor},
                      {"post_training.generation.expert_parallel", expert}};
    if (data) changes.emplace_back("post_training.generation.data_parallel", data);
    check_loop_refused(changes, words, kExperts);
  };
  refused("4", nullptr, "6", "6 parts are no multiple of the 4 GPUs of tensor_parallel; nearest: 4 or 8");
  refused("8", nullptr, "3", "3 parts do not divide the 8 GPUs of tensor_parallel; nearest: 2 or 4");
  refused("2", "4", "4",
          "4 parts, but an engine of 4 copies of 2 GPUs spreads its experts over all of them; nearest: 8");
  refused("2", nullptr, "24", "24 GPUs do not divide the 128 experts");
  refused("65536", "65536", "1", "data_parallel: 65536");  // more GPUs than an engine can have
  check_loop_refused({{"post_training.generation.data_parallel", "2"}}, "has no experts; expected 1");
}

}  // namespace scenarios_test_engine_degrees
