#pragma once
#include <map>
#include <string>
#include <vector>

#include "scenarios/src/lessons/tensor_operators.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "strategies/values/reference_training.hpp"

namespace trainyard {

struct StepQuestion {
  int steps = 1;
  int seed = 1;  ///< seed of the weights and the samples
  double learning_rate = 0.1;
  std::string leave_out;  ///< beginning of the name of an exchange whose messages bring zeros; "": none
};

/// Training steps of a scenario's own network on real numbers: once divided as its plan says, once on one device.
struct StepLesson {
  std::string network, plan, left_out_exchange;
  int ranks = 1, steps = 1;
  std::int64_t samples = 1;          ///< number of samples in a step
  double parameters = 0;             ///< number of parameters in the whole network
  double loss = 0, loss_of_one = 0;  ///< losses of the last step, divided and on one device
  TrainingDifference difference;
  std::vector<TensorComparison> tensors;
  std::vector<std::string> layers;      ///< names, by number
  std::map<std::string, int> messages;  ///< number of messages with values, by exchange
  CutLayer cut;                         ///< operators of tensor parallelism in one layer
  std::vector<std::string> hazards;
  std::string failure;  ///< why the steps without the left-out exchange could not end; "": they ended

  double largest_difference() const;  ///< largest difference of a weight; infinite if one is missing
  double largest_change() const;      ///< largest change of a weight on one device
  bool equals_one_device() const;
};

/// The scenario for `teach step`: all its collectives are simulated message by message, since only messages carry
/// values.
Scenario read_for_values(const std::string& file, const Overrides&);
/// Throws UserError for a plan or a network that has no values, or is too large.
StepLesson teach_step(const Scenario&, const StepQuestion&);
LessonView lesson_view(const StepLesson&);

}  // namespace trainyard
