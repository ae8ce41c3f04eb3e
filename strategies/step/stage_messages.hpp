#pragma once
#include <vector>

#include "sim/op.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// A message between a rank and one of another pipeline stage.
struct StageMessage {
  int peer = 0;
  BufferRef part;  ///< chunks of the rank's own part that are sent or received; without a buffer
  /// Fraction of the data of a rank of the earlier stage; for a tied weight, of the sender's data.
  double share = 1;
  std::uint16_t slot = 0;  ///< slot of the peer
};

/// Returns the messages of a micro-batch by which a rank sends activations (or gradients of them) to a stage, or
/// receives them from it. If stages are alike there is one message with everything. Otherwise a rank receives its part
/// from the ranks that have it: each data rank has an equal part of the samples, in order, and with sequence
/// parallelism each tensor rank an equal part of these. If all tensor ranks have the same data, the receivers are
/// divided among them in turn.
std::vector<StageMessage> stage_messages(const TrainingPlan&, int rank, int stage, bool sends);

/// Returns the messages of a tied weight's gradient, if stages have widths of their own and first and last stage share
/// a weight. A rank receives its rows from the tensor ranks that have them. Of the sending data ranks, those whose
/// number modulo the number of receiving data ranks is d send to data rank d, so that the receiving ranks together
/// have the whole sum. Ranks of other stages have no such messages.
std::vector<StageMessage> tied_messages(const TrainingPlan&, int rank, bool sends);
/// Number of elements of that weight on a rank of the first or the last stage.
double tied_elements(const TrainingPlan&, int stage);

}  // namespace trainyard
