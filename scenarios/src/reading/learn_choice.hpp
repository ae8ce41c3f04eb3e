#pragma once
#include <optional>
#include <string>

#include "strategies/values/layers/update_rule.hpp"
#include "strategies/values/learning/task_choice.hpp"

namespace trainyard {

/// How the learning rate grows with the global batch.
enum class RateScaling : std::uint8_t {
  none,
  square_root,  ///< Krizhevsky 2014, section 5
  linear,       ///< Goyal et al. 2017, section 2.1
};

/// A small training that rides on the steps of a scenario: what its section `learn` says.
struct LearnChoice {
  TaskChoice task;
  UpdateRule rule;  ///< its kind is the plan's optimizer; the rate is that of the scenario's batch
  double base_rate = 0, base_batch = 0;
  RateScaling scaling = RateScaling::none;
  int steps = 200;  ///< of the global batch, at most
  int every = 10;   ///< steps between two looks at what is learned
  std::uint64_t seed = 1;
  std::optional<double> target_loss, target_accuracy;
  int patience = 0;        ///< looks in a row without a better loss after which it stops; 0: it goes on
  std::string from, save;  ///< checkpoints; empty: none
  Place place;             ///< of the section

  bool used() const { return task.used(); }
  bool has_target() const { return target_loss || target_accuracy; }
};

const std::vector<std::string>& scaling_names();  ///< in the order of RateScaling

struct Scenario;
/// Reads the section. Throws UserError with the place: for what is not modelled, for a plan that splits the model (its
/// ranks compute what replicas of a whole model do), and of the rest of `scenario`, which must be read before.
LearnChoice read_learn(const Node&, const Scenario& scenario);

}  // namespace trainyard
