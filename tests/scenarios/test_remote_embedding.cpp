// The embedding lies on a parameter server, and all other gradients are all-reduced. test_training_values checks that
// this mechanism learns what one device learns.
#include <catch2/catch.hpp>

#include "scenarios/src/running/simulate.hpp"

namespace scenarios_test_remote_embedding {

using namespace trainyard;

namespace {

constexpr double kVocabulary = 400'000, kWidth = 768, kPositions = 1024;

Scenario hybrid(const std::string& mechanism, const Overrides& changes = {}) {
  Overrides all{{"plan.data_parallel.mechanism", mechanism}};
  all.insert(all.end(), changes.begin(), changes.end());
  return read_scenario_text(
      "cluster: {nodes: 2, node: t4-server, fabric: nonblocking}\n"
      "model: {base: gpt2, tie_word_embeddings: false, vocab_size: 400000}\n"
      "plan: {micro_batch_size: 1, precision: fp16, optimizer: adamw, data_parallel: {all_reduce: ring}}\n",
      "hybrid.yaml", all);
}

}  // namespace

TEST_CASE("a remote embedding takes no memory of the GPUs and no part in their all-reduce", "[mechanism]") {
  const Result remote_embedding = simulate(hybrid("remote-embedding")), all_reduced = simulate(hybrid("all-reduce"));
  const double remote_elements = (kVocabulary + kPositions) * kWidth;
  CHECK(all_reduced.memory.parameters.value - remote_embedding.memory.parameters.value == Approx(2 * remote_elements));
  CHECK(all_reduced.memory.gradients.value - remote_embedding.memory.gradients.value == Approx(2 * remote_elements));
  CHECK(remote_embedding.step_time.value < all_reduced.step_time.value);
  CHECK(remote_embedding.breakdown.exposed_communication.contains("remote embedding"));
  // A ring of 8 sends 2 · 7/8 of the gradients. Each rank looks up one row per token, and sends its gradient.
  const double looked_up_bytes = 2 * (1024 + 1024) * kWidth;
  CHECK(all_reduced.bytes_total.value - remote_embedding.bytes_total.value ==
        Approx(8 * (2 * 7 / 8.0 * 2 * remote_elements - 2 * looked_up_bytes - 8 * 1024)).epsilon(1e-6));
}

TEST_CASE("a remote embedding is refused for networks and plans that do not allow it", "[mechanism]") {
  const auto refused = [](const char* key, const char* value, const char* error) {
    CHECK_THROWS_WITH(plan(hybrid("remote-embedding", {{key, value}})), Catch::Contains(error));
  };
  refused("model.tie_word_embeddings", "true", "gpt2 also uses the embedding's weight in its last layer");
  refused("plan.data_parallel.embedding_node", "2", "embedding_node: 2, but nodes are 0 to 1");
  refused("plan.data_parallel.zero_stage", "1", "each replica must hold the whole model");
  refused("plan.data_parallel.compression", "{name: top-k, density: 0.1}",
          "rows of a remote embedding are sent uncompressed");
  CHECK_THROWS_WITH(hybrid("all-reduce", {{"plan.data_parallel.embedding_node", "0"}}),
                    Catch::Contains("with mechanism remote-embedding only"));
}

}  // namespace scenarios_test_remote_embedding
