#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

/// How the learning rate goes up at the beginning and down after it: a factor by step.
struct RateSchedule {
  enum class Decay : std::uint8_t { none, linear, cosine, milestones, inverse_sqrt };
  double warmup = 0;  ///< steps in which it rises linearly from 0 (Goyal et al. 2017, section 2.2)
  Decay decay = Decay::none;
  double steps = 0;                ///< of the training, for those that end at 0
  std::vector<double> milestones;  ///< steps after which it is `factor` times what it was
  double factor = 0.1;

  double at(double step) const;  ///< of the step after so many
};
const std::vector<std::string>& decay_names();  ///< in the order of RateSchedule::Decay

/// How parameters follow from gradients.
struct UpdateRule {
  enum class Kind : std::uint8_t { momentum, nesterov, adam, adamw, lars, lamb };
  Kind kind = Kind::momentum;
  double learning_rate = 0.1;
  double momentum = 0.9;                             ///< of momentum, nesterov and lars; 0: plain SGD
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  ///< of adam, adamw and lamb (Kingma & Ba 2015)
  double weight_decay = 0;
  double trust = 0.001;  ///< of lars: the coefficient of its trust ratio (You et al. 2017)
  double clip = 0;       ///< the largest norm of a gradient; 0: none
  RateSchedule schedule;
  double updates_per_step = 1;   ///< of servers that take each gradient alone, as many as there are workers
  bool staleness_aware = false;  ///< of these: divided by the gradient's staleness (Zhang et al. 2016)

  /// Of the update after so many.
  double rate(std::int64_t updates) const {
    return learning_rate * schedule.at(static_cast<double>(updates) / updates_per_step);
  }
  /// Of a gradient that has missed so many updates.
  double late(std::uint32_t staleness) const { return staleness_aware && staleness > 1 ? 1.0 / staleness : 1.0; }

  bool by_tensor() const;
};

/// A kind of update rule, for who lists and names them.
struct UpdateKind {
  const char* name;
  const char* description;
  bool by_tensor;
};
const std::vector<UpdateKind>& update_kinds();  ///< in the order of UpdateRule::Kind

}  // namespace trainyard
