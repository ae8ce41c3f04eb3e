#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "sim/error.hpp"
#include "strategies/values/mlp.hpp"

using namespace trainyard;

namespace {

/// Values without a library's generator.
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

}  // namespace

TEST_CASE("gradients agree with finite differences") {
  for (const MlpLoss loss : {MlpLoss::mean_squared_error, MlpLoss::softmax_cross_entropy}) {
    Mlp mlp({{3, 5, 4, 2}, loss}, 7);
    const Eigen::MatrixXd in = samples(3, 6, 0), target = targets(loss, 2, 6);
    const auto gradients = mlp.gradients(in, target, 6);
    for (int layer = 0; layer < mlp.layers(); ++layer) {
      auto& values = mlp.parameters(layer);
      for (Eigen::Index i = 0; i < values.size(); ++i) {
        const double step = 1e-5, value = values[i];
        values[i] = value + step;
        const double above = mlp.loss(mlp.forward(in), target, 6);
        values[i] = value - step;
        const double below = mlp.loss(mlp.forward(in), target, 6);
        values[i] = value;
        CHECK(gradients[static_cast<std::size_t>(layer)][i] == Approx((above - below) / (2 * step)).margin(1e-6));
      }
    }
  }
}

TEST_CASE("gradients of the shards of a batch sum to the batch's") {
  for (const MlpLoss loss : {MlpLoss::mean_squared_error, MlpLoss::softmax_cross_entropy}) {
    const Mlp mlp({{4, 8, 3}, loss}, 1);
    const Eigen::MatrixXd in = samples(4, 12, 0.5), target = targets(loss, 3, 12);
    const auto whole = mlp.gradients(in, target, 12);
    double shard_loss = 0;
    std::vector<Eigen::VectorXd> sum(2);
    for (std::size_t l = 0; l < 2; ++l) sum[l] = Eigen::VectorXd::Zero(whole[l].size());
    for (const auto& [from, count] : {std::pair{0, 5}, std::pair{5, 4}, std::pair{9, 3}}) {
      const Eigen::MatrixXd part = in.middleCols(from, count), wanted = target.middleCols(from, count);
      const auto gradients = mlp.gradients(part, wanted, 12);
      for (std::size_t l = 0; l < 2; ++l) sum[l] += gradients[l];
      shard_loss += mlp.loss(mlp.forward(part), wanted, 12);
    }
    for (std::size_t l = 0; l < 2; ++l) CHECK((sum[l] - whole[l]).cwiseAbs().maxCoeff() < 1e-12);
    CHECK(shard_loss == Approx(mlp.loss(mlp.forward(in), target, 12)).epsilon(1e-12));
  }
}

TEST_CASE("backward adds to a view of a larger buffer") {
  const Mlp mlp({{2, 3, 1}}, 5);
  const Eigen::MatrixXd in = samples(2, 4, 0.1), target = samples(1, 4, 0.9);
  const auto expected = mlp.gradients(in, target, 4);
  Eigen::VectorXd buffer = Eigen::VectorXd::Constant(expected[0].size() + expected[1].size(), 1.0);
  const Eigen::MatrixXd hidden = mlp.forward(0, in), out = mlp.forward(1, hidden);
  const Eigen::MatrixXd back =
      mlp.backward(1, hidden, out, mlp.loss_gradient(out, target, 4), buffer.tail(expected[1].size()));
  mlp.backward(0, in, hidden, back, buffer.head(expected[0].size()));
  CHECK((buffer.head(expected[0].size()).array() - 1 - expected[0].array()).abs().maxCoeff() < 1e-15);
  CHECK((buffer.tail(expected[1].size()).array() - 1 - expected[1].array()).abs().maxCoeff() < 1e-15);
}

TEST_CASE("weights depend on the seed and the layer alone") {
  const Mlp one({{3, 4, 2}}, 1), again({{3, 4, 2}}, 1), other({{3, 4, 2}}, 2), wider({{3, 4, 9}}, 1);
  CHECK(one.parameters(0) == again.parameters(0));
  CHECK(one.parameters(0) == wider.parameters(0));
  CHECK(one.parameters(0) != other.parameters(0));
  CHECK(one.parameters(0).tail(4).isZero());
  CHECK(one.parameters(0).cwiseAbs().maxCoeff() <= std::sqrt(6.0 / 7));
  // Pinned, so that a change of the generator, which changes every recorded result, is seen.
  CHECK(one.parameters(0)[0] == Approx(-0.4274875811024457).epsilon(1e-15));
}

TEST_CASE("it learns") {
  Mlp mlp({{2, 8, 1}}, 3);
  const Eigen::MatrixXd in = samples(2, 16, 0), target = in.colwise().prod();
  const double before = mlp.loss(mlp.forward(in), target, 16);
  for (int step = 0; step < 500; ++step) {
    const auto gradients = mlp.gradients(in, target, 16);
    for (int layer = 0; layer < mlp.layers(); ++layer)
      mlp.update(layer, gradients[static_cast<std::size_t>(layer)], 0.3);
  }
  CHECK(mlp.loss(mlp.forward(in), target, 16) < before / 5);
}

TEST_CASE("a large logit overflows nothing") {
  const Mlp mlp({{1, 2}, MlpLoss::softmax_cross_entropy}, 3);
  Eigen::MatrixXd out(2, 1), target(2, 1);
  out << 5000, 0;
  target << 0, 1;
  CHECK(mlp.loss(out, target, 1) == Approx(5000));
  CHECK(mlp.loss_gradient(out, target, 1)(0, 0) == Approx(1));
}

TEST_CASE("the layout has the tensors that the numerics have") {
  const MlpShape shape{{10, 20, 5}, MlpLoss::softmax_cross_entropy};
  const Network network = mlp_network(shape, 32, Precision::fp32);
  REQUIRE(network.layers.size() == 2);
  for (int layer = 0; layer < 2; ++layer) {
    const Layer& l = network.layers[static_cast<std::size_t>(layer)];
    CHECK(l.parameter_elements() == static_cast<double>(shape.parameters(layer)));
    REQUIRE(l.parameters.size() == 2);
    CHECK(l.backward.back().gradients_ready == std::vector<int>{1});
  }
  CHECK(network.parameters() == 10 * 20 + 20 + 20 * 5 + 5);
  CHECK(network.forward_flops().value == 2 * 32 * (10 * 20 + 20 * 5));
  // No gradient of the input of the whole network.
  CHECK(network.backward_flops().value == 2 * 32 * (10 * 20 + 2 * 20 * 5));
  CHECK(network.layers[0].output.value == 32 * 20 * 4);
  CHECK(network.samples == 32);
}

TEST_CASE("shapes that are none are refused") {
  CHECK_THROWS_AS(Mlp({{3}}, 1), UserError);
  CHECK_THROWS_AS(Mlp({{3, 0, 1}}, 1), UserError);
  CHECK_THROWS_AS(mlp_network({{}}, 1, Precision::fp32), UserError);
  CHECK_THROWS_AS(mlp_network({{3, 1}}, 0, Precision::fp32), UserError);
  const Mlp mlp({{3, 1}}, 1);
  CHECK_THROWS_AS(mlp.forward(0, Eigen::MatrixXd::Zero(2, 1)), InternalError);
}
