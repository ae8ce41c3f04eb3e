#pragma once
#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

/// Activations and their gradients on their way between pipeline stages. A message is named by the virtual stage whose
/// output it is, or (`back`) the gradients by it.
class PipelineMessages {
 public:
  PipelineMessages(StepContext& step, LaneCollectives& collectives) : step_(step), collectives_(collectives) {}

  /// Is there a virtual stage of that number, and does it lie on another stage than this rank's?
  bool elsewhere(int virtual_stage) const;
  /// The next kernel waits for it.
  Ops receive(int virtual_stage, int micro_batch, bool back);
  Ops send(int virtual_stage, int micro_batch, bool back);
  /// After all passes: first and last stage exchange their gradients of a tied weight, where that is no collective of two
  /// ranks each (see `tied_messages`).
  Ops sum_tied();

 private:
  StepContext& step_;
  LaneCollectives& collectives_;

  int stage_of(int virtual_stage) const;
  const Layer& last_layer_of(int virtual_stage) const;
  bool sends_parts(int virtual_stage) const;
  const RankPeers::OfStage& peers(int virtual_stage, bool later) const;
  Op& message(Kind, bool back, const StageMessage&, int number);
  Op& message(Kind, int virtual_stage, int micro_batch, bool back, const StageMessage&);
  BufferRef values(int virtual_stage, int micro_batch, bool back, BufferRef part) const;
};

}  // namespace trainyard
