#pragma once
#include <vector>

#include "sim/op.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// A message between a rank and one of another pipeline stage.
struct StageMessage {
  int peer = 0;
  BufferRef part;          ///< chunks of what the rank has, or takes; the buffer is not said
  double share = 1;        ///< of what a rank of the earlier stage has; of a tied weight, of what the sender has
  std::uint16_t slot = 0;  ///< the peer's
};

/// Messages of a micro-batch by which a rank hands on to a stage, or takes from it, activations and the gradients by them.
/// Where stages are alike it is one, all of it. Else a rank takes what it works on from the ranks that have that: samples
/// of which each data rank has an equal part, in order, and with sequence parallelism each tensor rank an equal part of
/// these. Of tensor ranks that all have the same each gives to every so-manieth of those that take, in turn.
std::vector<StageMessage> stage_messages(const TrainingPlan&, int rank, int stage, bool sends);

/// Where first and last stage have widths of their own, and a weight in common: messages of its gradient. A rank takes the
/// rows that it has from the tensor ranks that have them, of every so-manieth data rank, so that its data ranks have
/// together what all of the other stage summed. Of a rank of neither stage there are none.
std::vector<StageMessage> tied_messages(const TrainingPlan&, int rank, bool sends);
/// Elements of that weight on a rank of the first or the last stage.
double tied_elements(const TrainingPlan&, int stage);

}  // namespace trainyard
