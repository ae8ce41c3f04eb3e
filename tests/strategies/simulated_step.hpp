#pragma once
#include <functional>
#include <string>
#include <vector>

#include "strategies/values/training_values.hpp"

namespace trainyard {

/// The split and schedule of a small network, for a training step that is simulated on values.
struct SplitStep : StepOptions {
  SplitStep() { overlap_pipeline = true; }

  int micro_batches = 1, chunks = 1, steps = 1;
  std::string schedule = "1f1b";
  bool whole_tensors = true, pairs_passes = false;
  bool recomputes_some = false;  ///< full recomputation is for every second block of a transformer only
  OffloadDevice optimizer = OffloadDevice::none, parameters = OffloadDevice::none;
  int activations_ahead = -1;  ///< see ActivationOffload; −1: all activations stay on the GPU
  double bucket = 200;         ///< size of a bucket in bytes
  std::string all_reduce = "ring";
};
std::string in_words(const SplitStep&);
/// True if the first and the last stage each have a copy of a tied weight.
bool tied_over_stages(const TrainingTask&, const SplitStep&);

/// Changes an operation of a rank before it is executed. `number`: number of the rank's operations before it. `name`:
/// name of the operation.
using Break = std::function<void(Op&, int rank, int number, const std::string& name)>;

struct StepOutcome {
  /// Largest difference of loss, gradients and parameters to those of one device; infinite if values are missing.
  double difference = 0;
  std::string worst;
  std::string error;  ///< text of the exception: a deadlock, a missing input
  int hazards = 0;
  double seconds = 0;
};

/// Simulates the programs of the step, message by message, on slow links, and computes their values. It runs in a child
/// process. `prepare` changes the values before the first step.
StepOutcome simulated_step(const TrainingTask&, const SplitStep&, const Break& = {},
                           const std::function<void(TrainingValues&)>& prepare = {});
/// Returns all operations of one rank.
std::vector<Op> operations_of(const TrainingTask&, const SplitStep&, int rank);
/// Returns the receives of one rank whose names end in `name`.
std::vector<Op> receives_of(const TrainingTask&, const SplitStep&, int rank, const std::string& name);

}  // namespace trainyard
