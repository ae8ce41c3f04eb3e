#include "strategies/values/layers/update_rule.hpp"

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "strategies/values/layers/parameter_update.hpp"

namespace trainyard {
namespace {

// Factors by kind of decay. `progress`: share of the training, after the warm-up, that is over.
double remaining(double progress) { return std::clamp(1 - progress, 0.0, 1.0); }
double none(const RateSchedule&, double, double) { return 1; }
double linear(const RateSchedule&, double, double progress) { return remaining(progress); }
double cosine(const RateSchedule&, double, double progress) {
  return (1 + std::cos(std::numbers::pi * (1 - remaining(progress)))) / 2;
}
double milestones(const RateSchedule& s, double step, double) {
  double factor = 1;
  for (const double milestone : s.milestones) factor *= step >= milestone ? s.factor : 1;
  return factor;
}
/// Vaswani et al. 2017: proportional to 1/√step after the warm-up.
double inverse_sqrt(const RateSchedule& s, double step, double) {
  const double from = std::max(1.0, s.warmup);
  return step < from ? 1 : std::sqrt(from / step);
}

constexpr double (*kDecay[])(const RateSchedule&, double, double) = {none, linear, cosine, milestones, inverse_sqrt};

using Gradient = Eigen::Ref<const Eigen::VectorXd>;
using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

/// One tensor's part of an update.
struct Tensor {
  ParameterPart w;
  const Gradient& g;
  ParameterPart first, second;
  double rate;
  std::int64_t updates;
  MatrixForm form;

  Eigen::Index rows() const { return form.rows; }
  Eigen::Index columns() const { return g.size() / form.rows; }
  bool is_matrix() const { return rows() > 1 && columns() > 1; }
  bool is_inner_matrix() const { return form.inner && is_matrix(); }
  Matrix as_matrix(const Vector& values) const { return values.reshaped(rows(), columns()); }
  void decouple_decay(const UpdateRule& rule) { w *= 1 - rate * rule.weight_decay; }
};

/// The gradient with L2 regularization, as in PyTorch's SGD and Adam.
auto decayed(const UpdateRule& rule, const Tensor& t) { return t.g + rule.weight_decay * t.w; }

void momentum(const UpdateRule& rule, Tensor& t) {
  if (rule.gradients_have_momentum) {
    t.first = rule.momentum * t.first + rule.weight_decay * t.w;
    t.w -= t.rate * (t.g + t.first);
    return;
  }
  t.first = rule.momentum * t.first + decayed(rule, t);
  t.w -= t.rate * t.first;
}

/// Nesterov's momentum as in PyTorch's SGD: a step along the gradient plus the new momentum (Sutskever et al. 2013).
void nesterov(const UpdateRule& rule, Tensor& t) {
  t.first = rule.momentum * t.first + decayed(rule, t);
  t.w -= t.rate * (t.g + rule.weight_decay * t.w + rule.momentum * t.first);
}

/// Updates the moments and returns Adam's direction.
Eigen::VectorXd adam_direction(const UpdateRule& rule, Tensor& t, const Gradient& g) {
  t.first = rule.beta1 * t.first + (1 - rule.beta1) * g;
  t.second = rule.beta2 * t.second + (1 - rule.beta2) * g.cwiseAbs2();
  const auto steps = static_cast<double>(t.updates);
  const double mean = 1 - std::pow(rule.beta1, steps), square = 1 - std::pow(rule.beta2, steps);
  return (t.first / mean).array() / ((t.second / square).array().sqrt() + rule.epsilon);
}

void adam(const UpdateRule& rule, Tensor& t) {
  if (rule.weight_decay == 0)
    t.w -= t.rate * adam_direction(rule, t, t.g);
  else
    t.w -= t.rate * adam_direction(rule, t, Eigen::VectorXd(decayed(rule, t)));
}

/// Loshchilov & Hutter 2019.
void adamw(const UpdateRule& rule, Tensor& t) {
  t.decouple_decay(rule);
  t.w -= t.rate * adam_direction(rule, t, t.g);
}

double ratio(double a, double b) { return a > 0 && b > 0 ? a / b : 1; }

/// You et al. 2017, algorithm 1: the rate of a layer depends on the norms of its weights and its gradient.
void lars(const UpdateRule& rule, Tensor& t) {
  const double weights = t.w.norm();
  const double local = ratio(rule.trust * weights, t.g.norm() + rule.weight_decay * weights);
  t.first = rule.momentum * t.first + t.rate * local * decayed(rule, t);
  t.w -= t.first;
}

/// You et al. 2020, algorithm 2: Adam's direction, scaled to the norm of the layer's weights.
void lamb(const UpdateRule& rule, Tensor& t) {
  Eigen::VectorXd direction = adam_direction(rule, t, t.g);
  direction += rule.weight_decay * t.w;
  t.w -= t.rate * ratio(t.w.norm(), direction.norm()) * direction;
}

/// The 256 numbers of dynamic 8-bit quantization (Dettmers 2016; Dettmers et al. 2022; bitsandbytes, create_dynamic_map):
/// 0, 1, and in each of seven decades the middles of equal parts, twice as many in each decade as in the smaller one.
std::vector<double> dynamic_codes(bool has_sign) {
  constexpr int decades = 7;
  std::vector<double> codes{0, 1};
  for (int decade = 0; decade < decades; ++decade) {
    const int parts = (has_sign ? 1 : 2) << decade;
    const double largest = std::pow(10, decade + 1 - decades), width = 0.9 / parts;
    for (int part = 0; part < parts; ++part) {
      const double code = largest * (0.1 + width * (part + 0.5));
      codes.push_back(code);
      if (has_sign) codes.push_back(-code);
    }
  }
  std::ranges::sort(codes);
  return codes;
}

/// Replaces each number by the nearest that 8 bits and the largest absolute value of its block can store.
void store_in_8_bits(ParameterPart values, bool has_sign) {
  constexpr Eigen::Index block = 256;
  static const std::vector<double> with_sign = dynamic_codes(true), without_sign = dynamic_codes(false);
  const std::vector<double>& codes = has_sign ? with_sign : without_sign;
  for (Eigen::Index first = 0; first < values.size(); first += block) {
    auto part = values.segment(first, std::min(block, values.size() - first));
    const double largest = part.cwiseAbs().maxCoeff();
    if (largest == 0) continue;
    for (double& value : part) {
      const double share = value / largest;
      auto above = std::ranges::lower_bound(codes, share);
      if (above == codes.end() || (above != codes.begin() && share - *std::prev(above) < *above - share)) --above;
      value = *above * largest;
    }
  }
}

/// Dettmers et al. 2022: the update has Adam's exact moments, which are stored in 8 bits until the next.
void adam8bit(const UpdateRule& rule, Tensor& t) {
  adam(rule, t);
  store_in_8_bits(t.first, true);
  store_in_8_bits(t.second, false);
}

void adamw8bit(const UpdateRule& rule, Tensor& t) {
  adamw(rule, t);
  store_in_8_bits(t.first, true);
  store_in_8_bits(t.second, false);
}

double root_mean_square(const Vector& values) { return values.norm() / std::sqrt(static_cast<double>(values.size())); }

/// Shazeer & Stern 2018, algorithms 4 and 5, with PyTorch's limit of the rate: without momentum. A matrix has the means of
/// its squared gradients by row and by column, which the first elements of `second` store.
void adafactor(const UpdateRule& rule, Tensor& t) {
  constexpr double least_square = 1e-30, least_size = 1e-3, decay_power = 0.8;
  const auto steps = static_cast<double>(t.updates);
  const double decay = 1 - std::pow(steps, -decay_power);
  Vector squares = t.g.cwiseAbs2().array() + least_square;
  if (t.is_matrix()) {
    auto by_row = t.second.head(t.rows()), by_column = t.second.segment(t.rows(), t.columns());
    auto matrix = squares.reshaped(t.rows(), t.columns());
    by_row = decay * by_row + (1 - decay) * matrix.rowwise().mean();
    by_column = decay * by_column + (1 - decay) * matrix.colwise().mean().transpose();
    matrix = by_row * by_column.transpose() / by_row.mean();
  } else {
    t.second = decay * t.second + (1 - decay) * squares;
    squares = t.second;
  }
  Vector direction = t.g.array() / squares.array().sqrt();
  direction /= std::max(1.0, root_mean_square(direction));
  const double size = std::max(least_size, root_mean_square(t.w)) * std::min(t.rate, 1 / std::sqrt(steps));
  t.decouple_decay(rule);
  t.w -= size * direction;
}

/// Five Newton-Schulz iterations, which bring the singular values of a matrix near 1 (Jordan et al. 2024, Muon).
Matrix made_orthogonal(Matrix x) {
  constexpr int iterations = 5;
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, least_norm = 1e-7;
  x /= x.norm() + least_norm;
  const bool is_tall = x.rows() > x.cols();
  if (is_tall) x.transposeInPlace();
  for (int i = 0; i < iterations; ++i) {
    const Matrix square = x * x.transpose();
    x = a * x + (b * square + c * square * square) * x;
  }
  if (is_tall) x.transposeInPlace();
  return x;
}

/// Jordan et al. 2024: Nesterov's momentum of a matrix, made orthogonal. Its size is that of Adam's updates and its decay is
/// decoupled (Liu et al. 2025, Moonlight, section 2.2). AdamW updates other tensors.
void muon(const UpdateRule& rule, Tensor& t) {
  if (!t.is_inner_matrix()) return adamw(rule, t);
  constexpr double size_of_adam = 0.2;
  t.first = rule.momentum * t.first + t.g;
  const Matrix direction = made_orthogonal(t.as_matrix(t.g + rule.momentum * t.first));
  const double size = size_of_adam * std::sqrt(static_cast<double>(std::max(t.rows(), t.columns())));
  t.decouple_decay(rule);
  t.w -= t.rate * size * direction.reshaped();
}

/// The factors of a matrix's sides: the means of the gradient's products with itself, and what was last computed from them
/// (roots, or eigenvectors). `run` counts the same interval.
struct SideFactors {
  using Map = Eigen::Map<Matrix>;
  static constexpr std::int64_t kRenewalInterval = 10;  // the authors' code of SOAP: precondition_frequency
  Map row_mean, column_mean, row_basis, column_basis;

  explicit SideFactors(Tensor& t)
      : row_mean(t.form.factors.data(), t.rows(), t.rows()),
        column_mean(row_mean.data() + row_mean.size(), t.columns(), t.columns()),
        row_basis(column_mean.data() + column_mean.size(), t.rows(), t.rows()),
        column_basis(row_basis.data() + row_basis.size(), t.columns(), t.columns()) {}
  void add(const Matrix& gradient, double decay) {
    row_mean = decay * row_mean + (1 - decay) * gradient * gradient.transpose();
    column_mean = decay * column_mean + (1 - decay) * gradient.transpose() * gradient;
  }
  template <class Compute>
  void renew(Compute compute) {
    row_basis = compute(Matrix(row_mean), Matrix(row_basis));
    column_basis = compute(Matrix(column_mean), Matrix(column_basis));
  }
};

/// Gupta et al. 2018: the mean gradient times the inverse fourth roots of both sides, with the norm of Adam's update and with
/// the smallest eigenvalue of Shi et al. 2023. AdamW updates other tensors.
void shampoo(const UpdateRule& rule, Tensor& t) {
  if (!t.is_inner_matrix()) return adamw(rule, t);
  constexpr double least_eigenvalue = 1e-12;
  const auto steps = static_cast<double>(t.updates);
  SideFactors sides(t);
  sides.add(t.as_matrix(t.g), rule.beta2);
  if ((t.updates - 1) % SideFactors::kRenewalInterval == 0)
    sides.renew([=, correction = 1 - std::pow(rule.beta2, steps)](const Matrix& mean, const Matrix&) -> Matrix {
      const Eigen::SelfAdjointEigenSolver<Matrix> found(mean / correction);
      const Vector roots = (found.eigenvalues().array().max(0) + least_eigenvalue).pow(-0.25);
      return found.eigenvectors() * roots.asDiagonal() * found.eigenvectors().transpose();
    });
  const double size = adam_direction(rule, t, t.g).norm();
  const Matrix direction = sides.row_basis * t.as_matrix(t.first) * sides.column_basis;
  t.decouple_decay(rule);
  if (direction.norm() > 0) t.w -= t.rate * size / direction.norm() * direction.reshaped();
}

/// Vyas et al. 2024, algorithm 3: Adam in the basis of the eigenvectors of both sides, which a step of power iteration and a
/// QR decomposition renew. The first gradient gives the first basis. AdamW updates other tensors.
void soap(const UpdateRule& rule, Tensor& t) {
  if (!t.is_inner_matrix()) return adamw(rule, t);
  const auto steps = static_cast<double>(t.updates);
  const Matrix gradient = t.as_matrix(t.g);
  SideFactors sides(t);
  if (t.updates == 1) {
    sides.add(gradient, rule.beta2);
    sides.renew([](const Matrix& mean, const Matrix&) -> Matrix {
      return Eigen::SelfAdjointEigenSolver<Matrix>(mean).eigenvectors();
    });
  }
  const auto rotated = [&sides](const Matrix& m) -> Matrix {
    return sides.row_basis.transpose() * m * sides.column_basis;
  };
  t.first = rule.beta1 * t.first + (1 - rule.beta1) * t.g;
  t.second = rule.beta2 * t.second + (1 - rule.beta2) * rotated(gradient).reshaped().cwiseAbs2();
  Matrix direction = rotated(t.as_matrix(t.first)) / (1 - std::pow(rule.beta1, steps));
  const Matrix squares = t.as_matrix(t.second) / (1 - std::pow(rule.beta2, steps));
  direction.array() /= squares.array().sqrt() + rule.epsilon;
  t.decouple_decay(rule);
  t.w -= t.rate * (sides.row_basis * direction * sides.column_basis.transpose()).eval().reshaped();
  if (t.updates > 1) sides.add(gradient, rule.beta2);
  if (t.updates % SideFactors::kRenewalInterval == 0)
    sides.renew([](const Matrix& mean, const Matrix& basis) -> Matrix {
      return Eigen::HouseholderQR<Matrix>(mean * basis).householderQ();
    });
}

constexpr void (*kApply[])(const UpdateRule&, Tensor&) = {momentum, nesterov,  adam,      adamw, lars,    lamb,
                                                          adam8bit, adamw8bit, adafactor, muon,  shampoo, soap};

}  // namespace

const std::vector<std::string>& decay_names() {
  static const std::vector<std::string> names{"none", "linear", "cosine", "milestones", "inverse-sqrt"};
  return names;
}

double RateSchedule::multiplier(double step) const {
  if (step < warmup) return (std::floor(step) + 1) / warmup;
  return kDecay[static_cast<std::size_t>(decay)](*this, step, steps > warmup ? (step - warmup) / (steps - warmup) : 0);
}

const std::vector<UpdateKind>& update_kinds() {
  using enum UpdateRule::Part;
  static const std::vector<UpdateKind> kinds{
      {"momentum", "SGD with momentum (Polyak 1964)", element},
      {"nesterov", "SGD with Nesterov's momentum", element},
      {"adam", "Adam (Kingma & Ba 2015)", element},
      {"adamw", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)", element},
      {"lars", "momentum with a rate for each layer (You et al. 2017)", tensor},
      {"lamb", "Adam with a rate for each layer (You et al. 2020)", tensor},
      {"adam8bit", "Adam whose moments are stored in 8 bits (Dettmers et al. 2022)", tensor},
      {"adamw8bit", "AdamW whose moments are stored in 8 bits (Dettmers et al. 2022)", tensor},
      {"adafactor", "second moments by row and column (Shazeer & Stern 2018)", matrix},
      {"muon", "orthogonal momentum of matrices (Jordan et al. 2024)", matrix},
      {"shampoo", "roots of both sides of a matrix (Gupta et al. 2018)", matrix},
      {"soap", "Adam in the eigenvectors of both sides (Vyas et al. 2024)", matrix}};
  return kinds;
}

UpdateRule::Part UpdateRule::part() const { return update_kinds()[static_cast<std::size_t>(kind)].part; }
bool UpdateRule::is_adaptive() const { return kind >= Kind::adam && kind != Kind::lars; }
bool UpdateRule::has_momentum() const { return !is_adaptive() || kind == Kind::muon; }

Eigen::Index factor_count(const UpdateRule& rule, Eigen::Index count, const MatrixForm& form) {
  const Eigen::Index columns = count / form.rows;
  const bool has_sides = rule.kind == UpdateRule::Kind::shampoo || rule.kind == UpdateRule::Kind::soap;
  if (!has_sides || !form.inner || form.rows == 1 || columns == 1) return 0;
  return 2 * (form.rows * form.rows + columns * columns);
}

void apply_update(const UpdateRule& rule, ParameterPart parameters, const Eigen::Ref<const Eigen::VectorXd>& gradient,
                  ParameterPart first, ParameterPart second, std::int64_t updates, const MatrixForm& form) {
  Tensor tensor{parameters, gradient, first, second, rule.rate(updates - 1), updates, form};
  kApply[static_cast<std::size_t>(rule.kind)](rule, tensor);
}

void apply_update(const UpdateRule& rule, double& parameter, double gradient, double& first, double& second,
                  std::int64_t updates) {
  using Element = Eigen::Map<Eigen::VectorXd>;
  apply_update(rule, Element(&parameter, 1), Eigen::Map<const Eigen::VectorXd>(&gradient, 1), Element(&first, 1),
               Element(&second, 1), updates);
}

void OptimizerState::begin(Eigen::Index size) {
  if (updates > 0 || first.size() == size) return;
  first.setZero(size);
  second.setZero(size);
}

void OptimizerState::update(const UpdateRule& rule, ParameterPart parameters, const Eigen::VectorXd& gradient) {
  begin(gradient.size());
  apply_update(rule, parameters, gradient, first, second, ++updates);
}

}  // namespace trainyard
