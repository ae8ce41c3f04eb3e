#include "strategies/values/layers/update_rule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

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

}  // namespace trainyard
