#include "strategies/values/layers/optimizer_state.hpp"

#include <cmath>

namespace trainyard {
namespace {

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
