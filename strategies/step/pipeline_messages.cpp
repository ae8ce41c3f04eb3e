#include "strategies/step/pipeline_messages.hpp"

namespace trainyard {
namespace {

// Tags of messages between stages; those of collectives count from 1 in their lane.
constexpr Tag kStageMessages = Tag{31} << 27;

}  // namespace

int PipelineMessages::stage_of(int virtual_stage) const {
  return step_.plan.schedule->place_of(virtual_stage, step_.plan.pipeline).stage;
}

bool PipelineMessages::elsewhere(int virtual_stage) const {
  if (virtual_stage < 0 || virtual_stage >= step_.plan.virtual_stages() || step_.plan.pipeline.stages == 1)
    return false;
  return stage_of(virtual_stage) != step_.at.pipeline;
}

const Layer& PipelineMessages::last_layer_of(int virtual_stage) const {
  const PipelinePlace place = step_.plan.schedule->place_of(virtual_stage, step_.plan.pipeline);
  const StagePlan& stage = step_.plan.stages[place.stage];
  return step_.layer(stage.chunks[place.chunk].back());
}

/// Do tensor ranks send a part each of what all of them have?
bool PipelineMessages::sends_parts(int virtual_stage) const {
  return step_.plan.scatter_gather && step_.plan.lane(Lane::tensor).used() &&
         !last_layer_of(virtual_stage).output_in_parts;
}

Op& PipelineMessages::message(Kind kind, int virtual_stage, int micro_batch, bool back) {
  const bool sending = kind == Kind::send;
  const int other = stage_of(virtual_stage + (sending != back ? 1 : 0));
  Op& op = step_.out.begin(kind, step_.streams.pipeline(back, sending),
                           step_.words.pipeline_message[(back ? 2U : 0U) + (sending ? 0U : 1U)], step_.words.pipeline);
  op.message.slot = step_.peers.stage_slot[other];
  const int number = (micro_batch * step_.plan.virtual_stages() + virtual_stage) * 2 + (back ? 1 : 0);
  op.message.tag = kStageMessages | static_cast<Tag>(number);
  return op;
}

BufferRef PipelineMessages::values(int virtual_stage, int micro_batch, bool back) const {
  const TrainingBuffer buffer = activation_message(virtual_stage, micro_batch, back, step_.plan.virtual_stages());
  BufferRef ref{number_of(buffer), 0, 1};
  if (sends_parts(virtual_stage)) {
    ref.chunk = static_cast<std::uint16_t>(step_.at.tensor);
    ref.of = static_cast<std::uint16_t>(step_.plan.mesh.tensor);
  }
  return ref;
}

Ops PipelineMessages::receive(int virtual_stage, int micro_batch, bool back) {
  Op& op = message(Kind::recv, virtual_stage, micro_batch, back);
  const NameId name = op.name;
  if (step_.plan.values) op.write_to(values(virtual_stage, micro_batch, back));
  co_yield step_.out.emit();
  const Dep received = step_.out.after(step_.streams.pipeline(back, false));
  if (!sends_parts(virtual_stage)) {
    step_.waits.add(received);
    co_return;
  }
  const TrainingBuffer whole = activation_message(virtual_stage, micro_batch, back, step_.plan.virtual_stages());
  co_yield collectives_.run(
      {Lane::tensor, Operation::all_gather, last_layer_of(virtual_stage).output, name, step_.buffer(whole), received});
  step_.waits.add(collectives_.end_of(Lane::tensor));
}

Ops PipelineMessages::send(int virtual_stage, int micro_batch, bool back) {
  while (step_.waits.any()) co_yield step_.take_waits();
  Op& op = message(Kind::send, virtual_stage, micro_batch, back);
  op.message.bytes = last_layer_of(virtual_stage).output / (sends_parts(virtual_stage) ? step_.plan.mesh.tensor : 1);
  // Receives are posted ahead: nobody waits for the receiver, the sender for its message where it does not overlap.
  op.message.mode = step_.plan.overlap_pipeline ? Mode::eager : Mode::put;
  op.deps[0] = step_.out.after(TrainingStreams::compute);
  if (step_.plan.values) op.effect.read = values(virtual_stage, micro_batch, back);
  co_yield step_.out.emit();
  if (!step_.plan.overlap_pipeline) step_.waits.add(step_.out.after(step_.streams.pipeline(back, true)));
}

}  // namespace trainyard
