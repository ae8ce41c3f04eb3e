// Small training problems: their gradients, data and update rules.

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

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
    for (const auto& [first, count] : task->tensors()) {
      CHECK(first == covered);
      covered += count;
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
  CHECK(rule.by_tensor());
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
