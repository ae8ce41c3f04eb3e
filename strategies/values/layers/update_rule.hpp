#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

/// Schedule of the learning rate, as a factor by step: it rises during the warm-up and may decay after it.
struct RateSchedule {
  enum class Decay : std::uint8_t { none, linear, cosine, milestones, inverse_sqrt };
  double warmup = 0;  ///< number of steps in which it rises linearly from 0 (Goyal et al. 2017, section 2.2)
  Decay decay = Decay::none;
  double steps = 0;                ///< number of steps of the training, for linear and cosine decay
  std::vector<double> milestones;  ///< steps after which it is multiplied by `factor`
  double factor = 0.1;

  double multiplier(double step) const;  ///< factor of step number `step`, counted from 0
};
const std::vector<std::string>& decay_names();  ///< in the order of RateSchedule::Decay

/// The optimizer and its hyperparameters.
struct UpdateRule {
  enum class Kind : std::uint8_t {
    momentum,
    nesterov,
    adam,
    adamw,
    lars,
    lamb,
    adam8bit,
    adamw8bit,
    adafactor,
    muon,
    shampoo,
    soap
  };
  /// The part of the weights that a rule must have as a whole.
  enum class Part : std::uint8_t { element, tensor, matrix };
  Kind kind = Kind::momentum;
  double learning_rate = 0.1;
  double momentum = 0.9;  ///< for momentum, nesterov, lars, and the matrices of muon; 0: plain SGD
  /// For momentum: the gradients that are summed have their momentum already (see Compressor::momentum). The rule then
  /// applies momentum to the weight decay only.
  bool gradients_have_momentum = false;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  ///< for the rules that have Adam's moments (Kingma & Ba 2015)
  double weight_decay = 0;
  double trust = 0.001;  ///< for lars: coefficient of the trust ratio (You et al. 2017)
  double clip = 0;       ///< largest norm of a gradient; 0: gradients are not clipped
  RateSchedule schedule;
  double updates_per_step = 1;   ///< if servers apply each gradient alone: number of workers
  bool staleness_aware = false;  ///< then: a gradient is divided by its staleness (Zhang et al. 2016)

  /// Learning rate of the update after `updates` updates.
  double rate(std::int64_t updates) const {
    return learning_rate * schedule.multiplier(static_cast<double>(updates) / updates_per_step);
  }
  /// Factor of a gradient that has missed `staleness` updates.
  double late(std::uint32_t staleness) const { return staleness_aware && staleness > 1 ? 1.0 / staleness : 1.0; }

  Part part() const;
  bool is_adaptive() const;  ///< divides by a root of squared gradients, or makes the momentum orthogonal
  bool has_momentum() const;
  bool has_adams_moments() const { return is_adaptive() && kind != Kind::adafactor; }
};

/// Name and description of a kind of update rule.
struct UpdateKind {
  const char* name;
  const char* description;
  UpdateRule::Part part;
};
const std::vector<UpdateKind>& update_kinds();  ///< in the order of UpdateRule::Kind

}  // namespace trainyard
