// Small training problems: their gradients, data and update rules.

#include <Eigen/QR>
#include <Eigen/SVD>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "strategies/values/layers/layer_shard.hpp"
#include "strategies/values/layers/parameter_update.hpp"
#include "strategies/values/layers/update_rule.hpp"
#include "strategies/values/learning/noise_scale.hpp"
#include "strategies/values/learning/tasks.hpp"
#include "tests/seeds/plain_training.hpp"
#include "tests/temporary_folder.hpp"

namespace strategies_test_learning_tasks {

using namespace trainyard;
using namespace trainyard::test;
using Eigen::Index;

namespace {

TaskChoice small_choice(const std::string& name) {
  TaskChoice choice;
  choice.name = name;
  choice.data.samples = 60;
  choice.data.classes = 3;
  choice.data.features = 5;
  choice.side = 8;
  if (name != "softmax") choice.layers = {3, 4};
  choice.transformer = {2, 8, 2, 5, 6};
  choice.curvatures = {1, 3};
  choice.dimensions = 3;
  choice.noise = 0.5;
  return choice;
}

std::shared_ptr<const LearningTask> task_of(const TaskChoice& choice) {
  return learning_tasks().find(choice.name, {}).make(choice);
}

double loss_of(const LearningTask& task, const Eigen::VectorXd& w, const std::vector<Index>& samples) {
  Eigen::VectorXd ignored = Eigen::VectorXd::Zero(w.size());
  return task.add_gradient(w, samples, 1, ignored);
}

}  // namespace

TEST_CASE("gradients of tasks are those of their losses", "[learn]") {
  for (const std::string name : {"softmax", "mlp", "cnn", "transformer", "quadratic", "double-well"}) {
    CAPTURE(name);
    const auto task = task_of(small_choice(name));
    Eigen::VectorXd w = task->initial();
    for (Index i = 0; i < w.size(); ++i) w[i] += 0.1 * std::sin(static_cast<double>(i));
    const std::vector<Index> samples{3, 7, 11};
    Eigen::VectorXd gradient = Eigen::VectorXd::Ones(w.size());  // add_gradient adds to it
    const double loss = task->add_gradient(w, samples, 2, gradient);
    CHECK(loss == Approx(loss_of(*task, w, samples)).epsilon(1e-14));
    double worst = 0;
    for (Index i = 0; i < w.size(); i += 1 + w.size() / 40) {
      constexpr double step = 1e-5;
      Eigen::VectorXd more = w, less = w;
      more[i] += step;
      less[i] -= step;
      const double slope = (loss_of(*task, more, samples) - loss_of(*task, less, samples)) / (2 * step);
      worst = std::max(worst, std::abs(gradient[i] - 1 - 2 * slope) / (1 + std::abs(slope)));
    }
    CHECK(worst < 1e-6);
    Index covered = 0;
    for (const LearningTask::Tensor& tensor : task->tensors()) {
      CHECK(tensor.first == covered);
      CHECK(tensor.count % tensor.rows == 0);
      covered += tensor.count;
    }
    CHECK(covered == task->size());
    CHECK(std::isfinite(task->score(w).loss));
  }
}

TEST_CASE("a classifier task equals the plain network of its layers", "[learn]") {
  const auto task = task_of(small_choice("mlp"));
  TrainingTask plain;
  plain.model = MlpShape{{5, 3, 4, 3}, MlpLoss::softmax_cross_entropy};
  plain.seed = 1;
  const SplitSamples samples = split(clusters(small_choice("mlp").data), 0.2);
  SampleSet set{samples.training.inputs.leftCols(6), Eigen::MatrixXd::Zero(3, 6)};
  for (Index i = 0; i < 6; ++i) set.targets(samples.training.labels[i], i) = 1;
  plain.samples = std::make_shared<const SampleSet>(set);
  plain.micro_batch_size = 6;
  PlainNetwork network(plain);
  CHECK(largest_difference(network.initial(), task->initial()) == 0);
  Eigen::VectorXd gradient = Eigen::VectorXd::Zero(task->size());
  const std::vector<Index> which{0, 1, 2, 3, 4, 5};
  task->add_gradient(task->initial(), which, 1.0 / 6, gradient);
  CHECK(largest_difference(network.gradient(network.initial(), 0, 6), gradient) < 1e-14);
}

TEST_CASE("update rules are those of their papers", "[learn]") {
  const Eigen::Vector3d w0(0.5, -1, 2), g(0.1, 0.4, -0.2);
  const auto after = [&](UpdateRule rule, int updates) {
    OptimizerState state;
    Eigen::VectorXd w = w0;
    for (int i = 0; i < updates; ++i) state.update(rule, w, g);
    return w;
  };
  UpdateRule rule;
  rule.learning_rate = 0.1;
  rule.weight_decay = 0.01;
  rule.beta2 = 0.99;
  rule.kind = UpdateRule::Kind::nesterov;
  const Eigen::VectorXd decayed = g + 0.01 * w0;
  CHECK(largest_difference(after(rule, 1), w0 - 0.1 * (decayed + 0.9 * decayed)) < 1e-15);
  rule.kind = UpdateRule::Kind::adamw;
  const Eigen::VectorXd sign = g.cwiseSign();
  CHECK(largest_difference(after(rule, 1), w0 * (1 - 0.1 * 0.01) - 0.1 * sign) < 1e-6);
  rule.kind = UpdateRule::Kind::lamb;
  const Eigen::VectorXd direction = sign + 0.01 * w0;
  CHECK(largest_difference(after(rule, 1), w0 - 0.1 * w0.norm() / direction.norm() * direction) < 1e-6);
  rule.kind = UpdateRule::Kind::lars;
  const double local = 0.001 * w0.norm() / (g.norm() + 0.01 * w0.norm());
  CHECK(largest_difference(after(rule, 1), w0 - 0.1 * local * decayed) < 1e-15);
  CHECK(rule.part() == UpdateRule::Part::tensor);
}

namespace {

UpdateRule rule_of(UpdateRule::Kind kind) {
  UpdateRule rule;
  rule.kind = kind;
  rule.learning_rate = 0.01;
  rule.beta2 = 0.99;
  return rule;
}

/// A matrix that a rule updates, as a learned tensor.
struct UpdatedMatrix {
  UpdateRule rule;
  Eigen::MatrixXd weights;
  bool inner = true;
  OptimizerState state = {};

  void update(const Eigen::MatrixXd& gradient) {
    const Index size = weights.size();
    state.begin(size);
    const Index factors = factor_count(rule, size, {weights.rows(), inner});
    if (state.factors.size() != factors) state.factors.setZero(factors);
    apply_update(rule, weights.reshaped(), gradient.reshaped(), state.first, state.second, ++state.updates,
                 {weights.rows(), inner, {state.factors.data(), factors}});
  }
};

/// Gradients with the same numbers in every run.
Eigen::MatrixXd drawn_gradient(Index rows, Index columns, std::uint64_t number) {
  Eigen::MatrixXd all(rows, columns);
  numeric::Draw draw(number);
  for (Index i = 0; i < all.size(); ++i) {
    numeric::Draw element = draw;
    all.data()[i] = (element << static_cast<std::uint64_t>(i)).uniform();
  }
  return all;
}

Eigen::MatrixXd orthogonal_matrix(Index size, std::uint64_t number) {
  return Eigen::HouseholderQR<Eigen::MatrixXd>(drawn_gradient(size, size, number)).householderQ();
}

}  // namespace

TEST_CASE("Muon makes momenta orthogonal by the published polynomial, and leaves vectors and heads to AdamW",
          "[learn]") {
  UpdateRule rule = rule_of(UpdateRule::Kind::muon);
  const Eigen::Vector3d sides(3, 1, 0.5);
  UpdatedMatrix diagonal{rule, Eigen::MatrixXd::Zero(3, 3)};
  diagonal.update(sides.asDiagonal());
  for (Index i = 0; i < 3; ++i) {
    double x = sides[i] / sides.norm();
    for (int step = 0; step < 5; ++step) x = 3.4445 * x - 4.7750 * std::pow(x, 3) + 2.0315 * std::pow(x, 5);
    CHECK(-diagonal.weights(i, i) == Approx(0.01 * 0.2 * std::sqrt(3.0) * x).epsilon(1e-6));
    CHECK(x == Approx(1).margin(0.35));
  }
  UpdatedMatrix tall{rule, Eigen::MatrixXd::Zero(6, 4)}, wide{rule, Eigen::MatrixXd::Zero(4, 6)};
  for (int step = 0; step < 3; ++step) {
    const Eigen::MatrixXd before = tall.weights, gradient = drawn_gradient(6, 4, 7 + step);
    tall.update(gradient);
    wide.update(gradient.transpose());
    const Eigen::MatrixXd update = (before - tall.weights) / (0.01 * 0.2 * std::sqrt(6.0));
    const Eigen::VectorXd values = Eigen::JacobiSVD<Eigen::MatrixXd>(update).singularValues();
    CHECK(values.maxCoeff() < 1.25);
    CHECK(values.minCoeff() > 0.65);
  }
  CHECK((tall.weights - wide.weights.transpose()).cwiseAbs().maxCoeff() < 1e-12);
  rule.weight_decay = 0.1;
  for (const auto kind : {UpdateRule::Kind::muon, UpdateRule::Kind::shampoo, UpdateRule::Kind::soap}) {
    UpdateRule of_kind = rule, adamw = rule;
    of_kind.kind = kind;
    adamw.kind = UpdateRule::Kind::adamw;
    const Eigen::MatrixXd start = drawn_gradient(2, 3, 1), vector = drawn_gradient(1, 6, 1);
    UpdatedMatrix head{of_kind, start, false}, one_row{of_kind, vector}, expected{adamw, start},
        expected_row{adamw, vector};
    for (UpdatedMatrix* matrix : {&head, &one_row, &expected, &expected_row})
      for (int step = 0; step < 3; ++step)
        matrix->update(drawn_gradient(matrix->weights.rows(), matrix->weights.cols(), 2 + step));
    CHECK(head.weights == expected.weights);
    CHECK(one_row.weights == expected_row.weights);
  }
}

TEST_CASE("8-bit Adam stores its moments in the numbers of dynamic quantization, and stays near Adam", "[learn]") {
  UpdatedMatrix two{rule_of(UpdateRule::Kind::adam8bit), Eigen::MatrixXd::Zero(1, 2)};
  two.update(Eigen::RowVector2d(10, 5));
  // The numbers from 0.1 to 1 are the middles of 64 parts with a sign, and of 128 without.
  CHECK(two.state.first[0] == Approx(1));
  CHECK(two.state.first[1] == Approx(0.1 + 0.9 / 64 * 28.5));
  CHECK(two.state.second[0] == Approx(1));
  CHECK(two.state.second[1] == Approx(0.1 + 0.9 / 128 * 21.5));
  const Eigen::MatrixXd start = Eigen::MatrixXd::Zero(30, 20);
  UpdatedMatrix adam{rule_of(UpdateRule::Kind::adam), start}, in_8_bits{rule_of(UpdateRule::Kind::adam8bit), start},
      first_blocks{rule_of(UpdateRule::Kind::adam8bit), start.reshaped().head(512)},
      last_block{rule_of(UpdateRule::Kind::adam8bit), start.reshaped().tail(88)};
  for (int step = 0; step < 50; ++step) {
    const Eigen::MatrixXd gradient =
        drawn_gradient(30, 20, static_cast<std::uint64_t>(step)) + 0.5 * drawn_gradient(30, 20, 99);
    for (UpdatedMatrix* matrix : {&adam, &in_8_bits}) matrix->update(gradient);
    first_blocks.update(gradient.reshaped().head(512));
    last_block.update(gradient.reshaped().tail(88));
    if (step > 0) continue;
    CHECK(adam.weights == in_8_bits.weights);  // the first update has exact moments
    CHECK((adam.state.first - in_8_bits.state.first).cwiseAbs().maxCoeff() <=
          0.9 / 64 / 2 * adam.state.first.cwiseAbs().maxCoeff());
  }
  CHECK((adam.weights - in_8_bits.weights).norm() < 0.05 * adam.weights.norm());
  CHECK(adam.weights != in_8_bits.weights);
  // Ranks that have whole blocks compute what one rank computes.
  CHECK(in_8_bits.weights.reshaped().head(512) == first_blocks.weights.reshaped());
  CHECK(in_8_bits.weights.reshaped().tail(88) == last_block.weights.reshaped());
}

TEST_CASE("Adafactor's factors are exact for squared gradients of rank one", "[learn]") {
  UpdateRule rule = rule_of(UpdateRule::Kind::adafactor);
  const Eigen::MatrixXd start = drawn_gradient(4, 3, 5), outer = drawn_gradient(4, 1, 6) * drawn_gradient(1, 3, 7);
  const auto root_mean_square = [](const Eigen::MatrixXd& m) {
    return m.norm() / std::sqrt(static_cast<double>(m.size()));
  };
  UpdatedMatrix factored{rule, start}, other{rule, start};
  OptimizerState whole;
  Eigen::VectorXd weights = start.reshaped();
  factored.update(outer);
  other.update(outer);
  CHECK((factored.weights - (start - 0.01 * root_mean_square(start) * outer.cwiseSign())).norm() < 1e-12);
  whole.update(rule, weights, outer.reshaped());
  for (int step = 0; step < 5; ++step) {
    const Eigen::MatrixXd gradient = (step - 1.5) * outer;
    factored.update(gradient);
    whole.update(rule, weights, gradient.reshaped());
    other.update(drawn_gradient(4, 3, 20 + step));
  }
  CHECK((factored.weights.reshaped() - weights).norm() < 1e-12);
  CHECK((other.weights.reshaped() - weights).norm() > 1e-4);
  // The rate is at most one over the root of the number of updates.
  rule.learning_rate = 1;
  UpdatedMatrix fast{rule, Eigen::MatrixXd::Ones(2, 2)};
  for (int step = 0; step < 2; ++step) fast.update(Eigen::MatrixXd::Ones(2, 2) * (step == 0 ? 0 : 1));
  CHECK(fast.weights(0, 0) == Approx(1 - 1 / std::sqrt(2.0)).epsilon(1e-6));
}

TEST_CASE("Shampoo's first update is the nearest orthogonal matrix with Adam's norm, and its roots stay ten updates",
          "[learn]") {
  const UpdateRule rule = rule_of(UpdateRule::Kind::shampoo);
  const Eigen::MatrixXd gradient = drawn_gradient(4, 4, 3);
  const Eigen::JacobiSVD<Eigen::MatrixXd> svd(gradient, Eigen::ComputeFullU | Eigen::ComputeFullV);
  UpdatedMatrix dense{rule, Eigen::MatrixXd::Zero(4, 4)};
  dense.update(gradient);
  // Adam's first update is the sign of each of the 16 gradients, and an orthogonal matrix of 4 x 4 has the norm 2.
  CHECK((dense.weights + 0.01 * (4.0 / 2) * svd.matrixU() * svd.matrixV().transpose()).norm() < 1e-6);
  const Eigen::Vector2d first(2, -0.5), second(1, 1);
  UpdatedMatrix diagonal{rule, Eigen::MatrixXd::Zero(2, 2)};
  diagonal.update(first.asDiagonal());
  CHECK((diagonal.weights.diagonal() + 0.01 * first.cwiseSign()).norm() < 1e-6);
  for (int step = 2; step <= 11; ++step) {
    const Eigen::Vector2d before = diagonal.weights.diagonal();
    diagonal.update(second.asDiagonal());
    const auto moment = [step](double decay, double of_first, double of_second) {
      return (std::pow(decay, step - 1) * (1 - decay) * of_first + (1 - std::pow(decay, step - 1)) * of_second) /
             (1 - std::pow(decay, step));
    };
    Eigen::Vector2d adam, direction;
    for (Index i = 0; i < 2; ++i) {
      const double mean = moment(0.9, first[i], second[i]), square = moment(0.99, first[i] * first[i], 1);
      adam[i] = mean / std::sqrt(square);
      direction[i] = mean / (step <= 10 ? std::abs(first[i]) : std::sqrt(square));
    }
    CAPTURE(step);
    CHECK((before - diagonal.weights.diagonal() - 0.01 * adam.norm() / direction.norm() * direction).norm() < 1e-6);
  }
}

TEST_CASE("SOAP is Adam if the sides' eigenvectors are the axes, and turns with its gradients", "[learn]") {
  UpdateRule rule = rule_of(UpdateRule::Kind::soap), adamw = rule_of(UpdateRule::Kind::adamw);
  rule.weight_decay = adamw.weight_decay = 0.1;
  UpdatedMatrix diagonal{rule, Eigen::MatrixXd::Identity(4, 4)}, adam{adamw, Eigen::MatrixXd::Identity(4, 4)};
  for (int step = 0; step < 25; ++step)
    for (UpdatedMatrix* matrix : {&diagonal, &adam})
      matrix->update(drawn_gradient(4, 1, static_cast<std::uint64_t>(step)).col(0).asDiagonal());
  CHECK((diagonal.weights - adam.weights).norm() < 1e-12);
  CHECK((adam.weights - Eigen::MatrixXd::Identity(4, 4)).norm() > 0.1);
  const Eigen::MatrixXd row_turn = orthogonal_matrix(4, 1), column_turn = orthogonal_matrix(3, 2),
                        start = Eigen::MatrixXd::Zero(4, 3);
  for (const auto kind : {UpdateRule::Kind::soap, UpdateRule::Kind::muon}) {
    rule.kind = kind;
    UpdatedMatrix plain{rule, start}, turned{rule, start};
    for (int step = 0; step < 12; ++step) {
      const Eigen::MatrixXd gradient = drawn_gradient(4, 3, static_cast<std::uint64_t>(step));
      plain.update(gradient);
      turned.update(row_turn * gradient * column_turn.transpose());
    }
    CHECK((row_turn * plain.weights * column_turn.transpose() - turned.weights).norm() < 1e-8);
  }
}

TEST_CASE("learning rates follow their schedules", "[learn]") {
  RateSchedule s;
  CHECK(s.multiplier(7) == 1);
  s.warmup = 4;
  CHECK(s.multiplier(0) == 0.25);
  CHECK(s.multiplier(3) == 1);
  s.steps = 104;
  s.decay = RateSchedule::Decay::linear;
  CHECK(s.multiplier(54) == Approx(0.5));
  s.decay = RateSchedule::Decay::cosine;
  CHECK(s.multiplier(54) == Approx(0.5));
  CHECK(s.multiplier(29) == Approx((1 + std::sqrt(0.5)) / 2));
  s.decay = RateSchedule::Decay::milestones;
  s.milestones = {10, 20};
  CHECK(s.multiplier(15) == Approx(0.1));
  CHECK(s.multiplier(20) == Approx(0.01));
  s.decay = RateSchedule::Decay::inverse_sqrt;
  CHECK(s.multiplier(16) == Approx(0.5));
}

TEST_CASE("the measured noise scale of a quadratic function is the exact one", "[learn]") {
  TaskChoice choice = small_choice("quadratic");
  choice.curvatures = {1, 2, 4, 0.5};
  choice.noise = 3;
  const auto task = task_of(choice);
  SampleOrder order(1, 0);
  GradientNoise noise;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    const GradientNoise sample = measure_noise(*task, task->initial(), order, round * 128, 16, 8);
    noise.gradient += sample.gradient / kRounds;
    noise.trace += sample.trace / kRounds;
  }
  const double squares = 1 + 4 + 16 + 0.25;
  CHECK(noise.gradient == Approx(squares).epsilon(0.05));
  CHECK(noise.trace == Approx(9 * squares).epsilon(0.05));
  CHECK(noise.scale() == Approx(9).epsilon(0.08));
}

TEST_CASE("every epoch has every sample once, in an order of its own", "[learn]") {
  SampleOrder order(3, 10);
  std::vector<Index> first, second;
  for (int i = 0; i < 10; ++i) first.push_back(order.sample(i));
  for (int i = 10; i < 20; ++i) second.push_back(order.sample(i));
  CHECK(first != second);
  CHECK(order.sample(3) == first[3]);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  CHECK(first == second);
  CHECK(std::accumulate(first.begin(), first.end(), Index{0}) == 45);
}

TEST_CASE("samples come from the user's files", "[learn]") {
  const TemporaryFolder folder;
  const auto csv = folder.write("flowers.csv", "width,kind,height\n1.5,0,2\n2.5,2,3\n\n3.5,1,4\n");
  const LabelledSamples s = read_csv(csv, "kind", 0);
  CHECK(s.classes == 3);
  CHECK(s.count() == 3);
  CHECK(s.inputs(1, 2) == 4);
  CHECK(s.labels[1] == 2);
  const std::string name = csv.string();
  const auto wrong = [&](const std::string& text, const std::string& label, int classes, const std::string& error) {
    const auto file = folder.write("bad.csv", text);
    CHECK_THROWS_WITH(read_csv(file, label, classes), file.string() + error);
  };
  wrong("1,2,0\n1,0\n", "", 0, ":2: 2 columns, but there are 3 in the first line");
  wrong("1,2,0\n1,2,7\n", "", 3, ":2: label 7: a whole number from 0 to 2 expected");
  wrong("1,2,0\n1,x,1\n", "", 0, ":2: \"x\": a number expected");
  wrong("a,b\n1,2\n", "c", 0, ":1: no column \"c\"; there are a, b");
  wrong("", "", 0, ": no samples");
  const std::string images{"\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x01\0\xff\x33\0", 20},
      labels{"\0\0\x08\x01\0\0\0\x02\x01\0", 10};
  const LabelledSamples idx = read_idx(folder.write("images", images), folder.write("labels", labels));
  CHECK(idx.inputs(1, 0) == 1);
  CHECK(idx.inputs(0, 1) == Approx(0.2));
  CHECK(idx.labels[0] == 1);
  CHECK_THROWS_WITH(read_idx(folder.write("i", images.substr(0, 18)), folder.write("l", labels)),
                    Catch::Contains("2 bytes of data, but its header says 4"));
  CHECK_THROWS_WITH(read_idx(folder.write("i", labels), folder.write("l", labels)),
                    Catch::Contains("no IDX file of unsigned bytes in 3 dimensions"));
}

}  // namespace strategies_test_learning_tasks
