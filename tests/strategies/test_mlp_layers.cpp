#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "sim/error.hpp"
#include "strategies/values/reference_training.hpp"
#include "tests/seeds/plain_training.hpp"

namespace strategies_test_mlp_layers {

using namespace trainyard;

namespace {

/// Deterministic values without a random generator.
Eigen::MatrixXd samples(Eigen::Index rows, Eigen::Index columns, double phase) {
  Eigen::MatrixXd m(rows, columns);
  for (Eigen::Index c = 0; c < columns; ++c)
    for (Eigen::Index r = 0; r < rows; ++r) m(r, c) = std::sin(phase + 1.7 * static_cast<double>(r + rows * c));
  return m;
}

Eigen::MatrixXd targets(MlpLoss loss, Eigen::Index rows, Eigen::Index columns) {
  if (loss == MlpLoss::mean_squared_error) return samples(rows, columns, 0.3);
  Eigen::MatrixXd m = Eigen::MatrixXd::Zero(rows, columns);
  for (Eigen::Index c = 0; c < columns; ++c) m(c % rows, c) = 1;
  return m;
}

TrainingTask task_of(const MlpShape& shape, int count, std::uint64_t seed) {
  TrainingTask task;
  task.model = shape;
  task.micro_batch_size = count;
  task.seed = seed;
  task.rule.momentum = 0;
  task.samples = std::make_shared<const SampleSet>(
      SampleSet{samples(shape.widths.front(), count, 0.1), targets(shape.loss, shape.widths.back(), count)});
  return task;
}

constexpr MlpLoss kLosses[] = {MlpLoss::mean_squared_error, MlpLoss::softmax_cross_entropy};

}  // namespace

TEST_CASE("gradients agree with finite differences") {
  for (const MlpLoss loss : kLosses) {
    PlainNetwork network(task_of({{3, 5, 4, 2}, loss}, 6, 7));
    Eigen::VectorXd values = network.initial();
    const Eigen::VectorXd gradient = network.gradient(values, 0, 6);
    for (Eigen::Index i = 0; i < values.size(); ++i) {
      const double step = 1e-5, value = values[i];
      values[i] = value + step;
      const double above = network.loss(values, 0, 6);
      values[i] = value - step;
      const double below = network.loss(values, 0, 6);
      values[i] = value;
      CHECK(gradient[i] == Approx((above - below) / (2 * step)).margin(1e-6));
    }
  }
}

TEST_CASE("gradients of the shards of a batch sum to the batch's") {
  for (const MlpLoss loss : kLosses) {
    TrainingTask task = task_of({{4, 8, 3}, loss}, 12, 1);
    PlainNetwork all(task);
    Eigen::VectorXd sum = Eigen::VectorXd::Zero(all.initial().size());
    double shard_loss = 0;
    for (const auto& [from, count] : {std::pair{0, 5}, std::pair{5, 4}, std::pair{9, 3}}) {
      task.micro_batch_size = count;
      PlainNetwork part(task);
      sum += part.gradient(part.initial(), from, 12);
      shard_loss += part.loss(part.initial(), from, 12);
    }
    CHECK(largest_difference(sum, all.gradient(all.initial(), 0, 12)) < 1e-12);
    CHECK(shard_loss == Approx(all.loss(all.initial(), 0, 12)).epsilon(1e-12));
  }
}

TEST_CASE("backward adds to the present gradients") {
  const TrainingTask task = task_of({{2, 3, 1}}, 4, 5);
  PlainNetwork plain(task);
  const Eigen::VectorXd expected = plain.gradient(plain.initial(), 0, 4);
  ReferenceTraining training(task, 4);
  for (const int layer : {0, 1}) training.parameters().layer(layer).gradient.setOnes();
  training.forward();
  training.backward();
  Eigen::VectorXd gradient(expected.size());
  gradient << training.parameters().layer(0).gradient, training.parameters().layer(1).gradient;
  CHECK((gradient.array() - 1 - expected.array()).abs().maxCoeff() < 1e-15);
}

TEST_CASE("weights only depend on the seed and the layer") {
  const auto first = [](const MlpShape& shape, std::uint64_t seed) {
    return Eigen::VectorXd(PlainNetwork(task_of(shape, 1, seed)).initial().head(16));
  };
  const Eigen::VectorXd weights = first({{3, 4, 2}}, 1);
  CHECK(weights == first({{3, 4, 2}}, 1));
  CHECK(weights == first({{3, 4, 9}}, 1));
  CHECK(weights != first({{3, 4, 2}}, 2));
  CHECK(weights.tail(4).cwiseAbs().maxCoeff() <= 0.1);  // biases
  CHECK(weights.cwiseAbs().maxCoeff() <= std::sqrt(6.0 / 7));
  // Pinned, because a change of the generator changes every recorded result.
  CHECK(weights[0] == Approx(-0.43332751664611624).epsilon(1e-15));
}

TEST_CASE("an MLP learns") {
  TrainingTask task = task_of({{2, 8, 1}}, 16, 3);
  auto set = std::make_shared<SampleSet>(*task.samples);
  set->targets = set->inputs.colwise().prod();
  task.samples = set;
  task.rule.learning_rate = 0.3;
  PlainNetwork network(task);
  const double before = network.loss(network.initial(), 0, 16);
  CHECK(network.loss(train_plainly(task, 16, 500), 0, 16) < before / 5);
}

TEST_CASE("a large logit causes no overflow") {
  TrainingTask task = task_of({{1, 2}, MlpLoss::softmax_cross_entropy}, 1, 3);
  auto set = std::make_shared<SampleSet>(*task.samples);
  set->targets << 0, 1;
  task.samples = set;
  ReferenceTraining training(task, 1);
  training.forward();
  Eigen::MatrixXd out(2, 1);
  out << 5000, 0;
  CHECK(dynamic_cast<numeric::RankValues&>(training.values().rank(0)).loss_gradient(0, out)(0, 0) == Approx(1));
  PlainNetwork network(task);
  Eigen::VectorXd parameters = Eigen::VectorXd::Zero(4);
  parameters[2] = 5000;  // a bias
  CHECK(network.loss(parameters, 0, 1) == Approx(5000));
}

TEST_CASE("samples repeat once all have been used") {
  const TrainingTask task = task_of({{2, 3, 1}}, 4, 5);
  PlainNetwork network(task);
  CHECK(network.gradient(network.initial(), 8, 4) == network.gradient(network.initial(), 0, 4));
  CHECK(network.gradient(network.initial(), 2, 4) != network.gradient(network.initial(), 0, 4));
}

TEST_CASE("the layout of an MLP has the tensors of its numeric network") {
  const MlpShape shape{{10, 20, 5}, MlpLoss::softmax_cross_entropy};
  const Network network = mlp_network(shape, 32, Precision::fp32);
  REQUIRE(network.layers.size() == 2);
  for (int layer = 0; layer < 2; ++layer) {
    const Layer& l = network.layers[static_cast<std::size_t>(layer)];
    CHECK(l.parameter_elements() == (layer == 0 ? 10 * 20 + 20 : 20 * 5 + 5));
    REQUIRE(l.parameters.size() == 2);
    CHECK(l.backward.back().gradients_ready == std::vector<int>{1});
  }
  CHECK(network.parameters() == 10 * 20 + 20 + 20 * 5 + 5);
  CHECK(network.parameters() == static_cast<double>(PlainNetwork(task_of(shape, 32, 1)).initial().size()));
  CHECK(network.forward_flops().value == 2 * 32 * (10 * 20 + 20 * 5));
  // The network's input has no gradient.
  CHECK(network.backward_flops().value == 2 * 32 * (10 * 20 + 2 * 20 * 5));
  CHECK(network.layers[0].output.value == 32 * 20 * 4);
  CHECK(network.samples == 32);
}

TEST_CASE("invalid shapes are refused") {
  CHECK_THROWS_AS(mlp_network({{3}}, 1, Precision::fp32), UserError);
  CHECK_THROWS_AS(mlp_network({{3, 0, 1}}, 1, Precision::fp32), UserError);
  CHECK_THROWS_AS(mlp_network({{}}, 1, Precision::fp32), UserError);
  CHECK_THROWS_AS(mlp_network({{3, 1}}, 0, Precision::fp32), UserError);
  TrainingTask task = task_of({{3, 1}}, 1, 1);
  task.samples = std::make_shared<const SampleSet>(SampleSet{Eigen::MatrixXd::Zero(2, 1), Eigen::MatrixXd::Zero(1, 1)});
  PlainNetwork network(task);
  CHECK_THROWS_AS(network.loss(network.initial(), 0, 1), InternalError);
}

}  // namespace strategies_test_mlp_layers
