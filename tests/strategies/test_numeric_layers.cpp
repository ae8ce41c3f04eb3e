#include <catch2/catch.hpp>
#include <cmath>

#include "numeric_tasks.hpp"
#include "strategies/values/reference_training.hpp"

namespace strategies_test_numeric_layers {

using namespace trainyard;
using numeric::Index;

namespace {

double loss_with(const TrainingTask& task, int layer, Index element, double change) {
  ReferenceTraining step(task, task.micro_batch_size);
  step.parameters().layer(layer).parameters[element] += change;
  step.forward();
  return step.values().loss();
}

/// Compares gradients with central differences of the loss, for some elements of every tensor.
void check_gradients(const TrainingTask& task) {
  ReferenceTraining step(task, task.micro_batch_size);
  step.forward();
  step.backward();
  CHECK(std::isfinite(step.values().loss()));
  numeric::RankParameters& own_parameters = step.parameters();
  constexpr double kStep = 1e-4;
  for (const int number : own_parameters.numbers()) {
    const numeric::LayerShard& layer = own_parameters.layer(number);
    for (const auto& tensor : layer.tensors) {
      const auto size = static_cast<Index>(tensor.shard.numbers.size());
      for (Index i = 0; i < 4; ++i) {
        const Index element = tensor.first + (i * 7919 + 3) % size;
        const double slope =
            (loss_with(task, number, element, kStep) - loss_with(task, number, element, -kStep)) / (2 * kStep);
        INFO("layer " << number << " " << tensor.name << " element " << element - tensor.first);
        CHECK(layer.gradient[element] == Approx(slope).epsilon(1e-6).margin(1e-8));
      }
      if (tensor.name.find("k.bias") == std::string::npos) CHECK(layer.gradient.segment(tensor.first, size).norm() > 0);
    }
  }
}

}  // namespace

TEST_CASE("gradients of small networks are slopes of their losses", "[numeric]") {
  check_gradients(small_gpt2());
  check_gradients(small_gpt2(false));
  check_gradients(small_llama());
  check_gradients(small_mixtral());
  check_gradients(small_mlp());
  check_gradients(small_mlp(MlpLoss::softmax_cross_entropy));
}

TEST_CASE("Qwen's networks have head norms and biases of queries, keys and values", "[numeric]") {
  check_gradients(transformer_task(R"({"model_type": "qwen3", "vocab_size": 24, "num_hidden_layers": 1,
    "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 12,
    "max_position_embeddings": 8, "attention_bias": true})",
                                   1, 6));
}

TEST_CASE("a step of one device reduces the loss", "[numeric]") {
  for (const auto update : {UpdateRule::Kind::momentum, UpdateRule::Kind::adam}) {
    TrainingTask task = small_llama();
    task.rule.kind = update;
    task.rule.learning_rate = update == UpdateRule::Kind::adam ? 1e-3 : 0.05;
    ReferenceTraining step(task, 4);
    step.forward();
    const double before = step.values().loss();
    CHECK(before == Approx(std::log(32)).epsilon(0.3));
    step.backward();
    const numeric::LayerShard& head = step.parameters().layer(3);
    const Eigen::VectorXd gradient = head.gradient, parameters = head.parameters;
    step.update();
    CHECK(gradient.dot(head.parameters - parameters) < 0);
  }
}

}  // namespace strategies_test_numeric_layers
