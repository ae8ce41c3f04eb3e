#pragma once
#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

/// Sends and receives activations and their gradients between pipeline stages. A message is named by the virtual stage
/// whose output it carries, or (`back`) the gradients of that output.
class PipelineMessages {
 public:
  PipelineMessages(StepContext& step, LaneCollectives& collectives) : step_(step), collectives_(collectives) {}

  /// True if that virtual stage exists and lies on another stage than this rank's.
  bool is_on_other_rank(int virtual_stage) const;
  /// Receives a message; the next kernel waits for it.
  Ops receive(int virtual_stage, int micro_batch, bool back);
  Ops send(int virtual_stage, int micro_batch, bool back);
  /// Exchanges the gradients of a tied weight between the first and the last stage after all passes, if the two stages
  /// do so by messages (see `tied_messages`).
  Ops sum_tied();

 private:
  StepContext& step_;
  LaneCollectives& collectives_;

  const Layer& last_layer_of(int virtual_stage) const;
  bool sends_parts(int virtual_stage) const;
  const RankPeers::StagePeers& peers(int virtual_stage, bool later) const;
  Op& message(Kind, bool back, const StageMessage&, int number);
  Op& message(Kind, int virtual_stage, int micro_batch, bool back, const StageMessage&);
  BufferRef values(int virtual_stage, int micro_batch, bool back, BufferRef part) const;
};

}  // namespace trainyard
