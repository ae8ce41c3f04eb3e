// Functions of a few parameters, whose minima and gradient noise are known exactly.
#include <fmt/format.h>

#include <algorithm>

#include "strategies/values/learning/draws.hpp"
#include "strategies/values/learning/tasks.hpp"

namespace trainyard {
namespace {

using Vector = Eigen::VectorXd;
using Index = Eigen::Index;

Vector draw_vector(std::uint64_t seed, Index sample, Index size, double deviation) {
  Vector values = Vector::Zero(size);
  if (deviation == 0) return values;
  Draws draws(hash_numbers({seed, static_cast<std::uint64_t>(sample)}));
  for (double& value : values) value = deviation * draws.normal();
  return values;
}

class Quadratic : public LearningTask {
 public:
  Quadratic(const std::vector<double>& curvatures, double noise, std::uint64_t seed)
      : curvatures_(Eigen::Map<const Vector>(curvatures.data(), std::ssize(curvatures))), noise_(noise), seed_(seed) {}

  Index size() const override { return curvatures_.size(); }
  Vector initial() const override { return Vector::Ones(size()); }
  Index samples() const override { return 0; }
  double add_gradient(const Vector& w, std::span<const Index> which, double scale, Vector& sum) const override {
    double loss = 0;
    for (const Index sample : which) {
      const Vector off = w - draw_vector(seed_, sample, size(), noise_);
      const Vector gradient = curvatures_.cwiseProduct(off);
      loss += off.dot(gradient) / 2;
      sum += scale * gradient;
    }
    return loss;
  }
  TaskScore score(const Vector& w) const override { return {curvatures_.dot(w.cwiseAbs2()) / 2}; }
  bool shows_position() const override { return true; }
  std::string in_words() const override { return fmt::format("quadratic function of {} parameters", size()); }

 private:
  Vector curvatures_;
  double noise_;
  std::uint64_t seed_;
};

class DoubleWell : public LearningTask {
 public:
  DoubleWell(int dimensions, double noise, std::uint64_t seed) : size_(dimensions), noise_(noise), seed_(seed) {}

  Index size() const override { return size_; }
  Vector initial() const override { return Vector::Zero(size_); }
  Index samples() const override { return 0; }
  double add_gradient(const Vector& w, std::span<const Index> which, double scale, Vector& sum) const override {
    const Eigen::ArrayXd above = w.array().square() - 1;
    double loss = 0;
    for (const Index sample : which) {
      const Vector tilt = draw_vector(seed_, sample, size_, noise_);
      loss += above.square().sum() - tilt.dot(w);
      sum += scale * Vector(4 * w.array() * above - tilt.array());
    }
    return loss;
  }
  TaskScore score(const Vector& w) const override { return {(w.array().square() - 1).square().sum()}; }
  bool shows_position() const override { return true; }
  std::string in_words() const override { return fmt::format("double well of {} parameters", size_); }

 private:
  Index size_;
  double noise_;
  std::uint64_t seed_;
};

constexpr int kMostDimensions = 1 << 20;
constexpr double kWellNoise = 1;  // a sample then tilts the hill enough to push a worker off its top

std::vector<double> read_numbers(Fields& learn, const Key& key, std::vector<double> fallback) {
  const std::vector<Node>* list = learn.list(key);
  if (!list) return fallback;
  std::vector<double> numbers;
  for (const Node& item : *list) {
    try {
      numbers.push_back(parse_number(item.scalar));
    } catch (const UserError&) {
      fail(item.place, fmt::format("learn.{}: \"{}\"; expected a number", key.name, item.scalar));
    }
  }
  return numbers;
}

void read_start(Fields& learn, TaskChoice& choice, double noise) {
  choice.noise = learn.number(
      {"noise",
       "Standard deviation of the samples around their mean, for example 0.5. Default: 0, and 1 for the double well."},
      0, 1e9, noise);
  choice.start = read_numbers(
      learn,
      {"start",
       "Initial value of every parameter, one for each worker, for example [1, -1]. Default: that of the task."},
      {});
}

void read_quadratic(Fields& learn, TaskChoice& choice) {
  read_start(learn, choice, 0);
  choice.curvatures = read_numbers(
      learn,
      {"curvatures",
       "Second derivative in each dimension of the quadratic function, for example [1, 10]. Default: [1]."},
      {1});
}

void read_double_well(Fields& learn, TaskChoice& choice) {
  read_start(learn, choice, kWellNoise);
  if (choice.noise == 0 && std::count(choice.start.begin(), choice.start.end(), 0) == std::ssize(choice.start))
    learn.refuse("noise", "0 leaves every worker on top of the hill, where the gradient is 0; give noise or a start");
  choice.dimensions = learn.integer_within<int>(
      {"dimensions", "Number of dimensions of the double well, for example 10."}, 1, kMostDimensions, 1);
}

const Registration register_quadratic{
    learning_tasks(), "quadratic",
    TaskKind{"a quadratic function with noisy samples", read_quadratic,
             [](const TaskChoice& c) { return quadratic(c.curvatures, c.noise, c.seed); }}};
const Registration register_double_well{
    learning_tasks(), "double-well",
    TaskKind{"(w^2 - 1)^2: two minima at -1 and 1 with a hill between them", read_double_well,
             [](const TaskChoice& c) { return double_well(c.dimensions, c.noise, c.seed); }}};

}  // namespace

std::shared_ptr<const LearningTask> quadratic(std::vector<double> curvatures, double noise, std::uint64_t seed) {
  return std::make_shared<Quadratic>(curvatures, noise, seed);
}

std::shared_ptr<const LearningTask> double_well(int dimensions, double noise, std::uint64_t seed) {
  return std::make_shared<DoubleWell>(dimensions, noise, seed);
}

}  // namespace trainyard
