#pragma once
#include <functional>
#include <string>
#include <vector>

#include "strategies/values/training_values.hpp"

namespace trainyard {

/// How a small network is split and scheduled, for a training step that is simulated on values.
struct SplitStep {
  Mesh mesh;
  Sharding sharding;                      ///< tensor, context and expert as in the mesh
  std::vector<Sharding> stage_shardings;  ///< of stages with widths of their own
  int micro_batches = 1, chunks = 1, steps = 1;
  std::string schedule = "1f1b";
  ZeroStage zero = ZeroStage::none;
  int zero_group = 0, prefetch = 1;
  bool reshard = true, overlap_gradients = true, overlap_parameters = true, overlap_pipeline = true;
  bool scatter_gather = false, whole_tensors = true, sync_last = false, pairs_passes = false;
  bool recomputes_some = false;  ///< of a transformer's blocks every second one alone, where the sharding says full
  OffloadDevice optimizer = OffloadDevice::none, parameters = OffloadDevice::none;
  int activations_ahead = -1;  ///< see ActivationOffload; −1: all activations stay on the GPU
  double bucket = 200;         ///< bytes
  std::string all_reduce = "ring";
};
std::string in_words(const SplitStep&);
/// Do the first and the last stage have a copy each of one weight?
bool tied_over_stages(const TrainingTask&, const SplitStep&);

/// Changes one operation of one rank before anybody sees it; `number`: how many it has given before; `name`: its own.
using Break = std::function<void(Op&, int rank, int number, const std::string& name)>;

struct StepOutcome {
  double difference = 0;  ///< from one device: the largest of loss, gradients, parameters; infinite for numbers missing
  std::string worst;
  std::string error;  ///< what was thrown: a deadlock, a missing input
  int hazards = 0;
  double seconds = 0;
};

/// Simulates the step's programs, message by message, on slow links, and computes what they say. In a child process.
/// `prepare` changes the numbers before the first step.
StepOutcome simulated_step(const TrainingTask&, const SplitStep&, const Break& = {},
                           const std::function<void(TrainingValues&)>& prepare = {});
/// All operations of one rank.
std::vector<Op> operations_of(const TrainingTask&, const SplitStep&, int rank);
/// Those by which it receives what ends in that name.
std::vector<Op> receives_of(const TrainingTask&, const SplitStep&, int rank, const std::string& name);

}  // namespace trainyard
