#include "strategies/values/layers/update_rule.hpp"

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

/// One tensor's part of an update.
struct Tensor {
  ParameterPart w;
  const Gradient& g;
  ParameterPart first, second;
  double rate;
  std::int64_t updates;
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
  t.w *= 1 - t.rate * rule.weight_decay;
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

constexpr void (*kApply[])(const UpdateRule&, Tensor&) = {momentum, nesterov, adam, adamw, lars, lamb};

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
  static const std::vector<UpdateKind> kinds{
      {"momentum", "SGD with momentum (Polyak 1964)", false},
      {"nesterov", "SGD with Nesterov's momentum", false},
      {"adam", "Adam (Kingma & Ba 2015)", false},
      {"adamw", "Adam with decoupled weight decay (Loshchilov & Hutter 2019)", false},
      {"lars", "momentum with a rate for each layer (You et al. 2017)", true},
      {"lamb", "Adam with a rate for each layer (You et al. 2020)", true}};
  return kinds;
}

bool UpdateRule::by_tensor() const { return update_kinds()[static_cast<std::size_t>(kind)].by_tensor; }

void apply_update(const UpdateRule& rule, ParameterPart parameters, const Eigen::Ref<const Eigen::VectorXd>& gradient,
                  ParameterPart first, ParameterPart second, std::int64_t updates) {
  Tensor tensor{parameters, gradient, first, second, rule.rate(updates - 1), updates};
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
