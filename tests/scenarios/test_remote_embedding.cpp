// The embedding on a parameter server, all else all-reduced. That it learns what a single device learns: test_training_values.
#include "scenarios/src/running/simulate.hpp"
#include "tests/support.hpp"

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

TEST_CASE("a remote embedding leaves the GPUs' memory and their all-reduce", "[mechanism]") {
  const Result with = simulate(hybrid("remote-embedding")), without = simulate(hybrid("all-reduce"));
  const double remote = (kVocabulary + kPositions) * kWidth;
  CHECK(without.memory.parameters - with.memory.parameters == Approx(2 * remote));
  CHECK(without.memory.gradients - with.memory.gradients == Approx(2 * remote));
  CHECK(with.step_time < without.step_time);
  CHECK(with.breakdown.exposed_communication.contains("remote embedding"));
  // A ring of 8 sends 2 · 7/8 of the gradients; each rank looks up a row a token, and sends its gradient.
  const double looked_up = 2 * (1024 + 1024) * kWidth;
  CHECK(without.bytes_total - with.bytes_total ==
        Approx(8 * (2 * 7 / 8.0 * 2 * remote - 2 * looked_up - 8 * 1024)).epsilon(1e-6));
}

TEST_CASE("a remote embedding is refused where it cannot be", "[mechanism]") {
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
