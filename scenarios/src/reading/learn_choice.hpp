#pragma once
#include <optional>
#include <string>

#include "strategies/values/layers/update_rule.hpp"
#include "strategies/values/learning/task_choice.hpp"

namespace trainyard {

/// Growth of the learning rate with the global batch.
enum class RateScaling : std::uint8_t {
  none,
  square_root,  ///< Krizhevsky 2014, section 5
  linear,       ///< Goyal et al. 2017, section 2.1
  published,    ///< with a warm-up: linear for SGD and LARS, by the square root for Adam and LAMB
};

/// The section `learn` of a scenario: a small training with real numbers, which takes the times of the scenario's
/// steps.
struct LearnChoice {
  TaskChoice task;
  UpdateRule rule;  ///< its kind is the plan's optimizer; its rate is scaled to the scenario's batch
  double base_rate = 0, base_batch = 0;
  RateScaling scaling = RateScaling::none;
  double exponent = 0;      ///< the rate grows with this power of the batch
  int steps = 200;          ///< most steps of the global batch
  int interval_steps = 10;  ///< steps between two evaluations
  std::uint64_t seed = 1;
  bool leaves_all_gather = false;  ///< see LearningSetup
  std::optional<double> target_loss, target_accuracy;
  int patience = 0;        ///< evaluations in a row without a lower loss after which it stops; 0: it goes on
  std::string from, save;  ///< files of the initial and final weights; empty: none
  Place place;             ///< place of the section

  bool is_used() const { return task.is_used(); }
  bool has_target() const { return target_loss || target_accuracy; }
};

const std::vector<std::string>& scaling_names();  ///< in the order of RateScaling

struct Scenario;
/// Reads the section, after the rest of `scenario`. Throws UserError with the place for anything that is not modelled,
/// and for a plan that splits the model (its ranks compute the same numbers as replicas of a whole model).
LearnChoice read_learn(const Node&, const Scenario& scenario);

}  // namespace trainyard
