// Activations and their gradients on their way between pipeline stages.
#include "strategies/step/training_step.hpp"

namespace trainyard {
namespace {

// Tags of messages between stages; those of collectives count from 1 in their lane.
constexpr Tag kStageMessages = Tag{31} << 27;

}  // namespace

/// Does a neighbour in the network lie on another stage?
bool TrainingStep::elsewhere(int virtual_stage) const {
  if (virtual_stage < 0 || virtual_stage >= plan_.virtual_stages() || plan_.pipeline.stages == 1) return false;
  return plan_.schedule->place_of(virtual_stage, plan_.pipeline).stage != at_.pipeline;
}

/// Whose output a virtual stage hands on.
const Layer& TrainingStep::last_layer_of(int virtual_stage) const {
  const PipelinePlace place = plan_.schedule->place_of(virtual_stage, plan_.pipeline);
  const std::vector<int>& layers =
      plan_.stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.chunk)];
  return plan_.network->layers[static_cast<std::size_t>(layers.back())];
}

/// Do tensor ranks send a part each of what all of them have?
bool TrainingStep::sends_parts(int virtual_stage) const {
  return plan_.scatter_gather && plan_.lane(Lane::tensor).used() && !last_layer_of(virtual_stage).output_in_parts;
}

/// Activations of a virtual stage come in, or (back) the gradients by them.
Ops TrainingStep::receive(int virtual_stage, int micro_batch, bool back) {
  const bool parts = sends_parts(virtual_stage);
  const int from = plan_.schedule->place_of(virtual_stage + (back ? 1 : 0), plan_.pipeline).stage;
  const std::uint16_t buffer = activation_buffer(virtual_stage, micro_batch, back, plan_.virtual_stages());
  Op& op = out_.fresh(Kind::recv, streams_.pipeline(back, false));
  op.group = words_.pipeline;
  op.name = words_.pipeline_message[back ? 3 : 1];
  op.message.slot = peers_.stage_slot[static_cast<std::size_t>(from)];
  op.message.tag = kStageMessages | static_cast<Tag>((micro_batch * plan_.virtual_stages() + virtual_stage) * 2 + back);
  if (plan_.values) {
    op.effect.action = Action::copy;
    op.effect.write = {buffer, 0, 1};
    if (parts)
      op.effect.write = {buffer, static_cast<std::uint16_t>(at_.tensor), static_cast<std::uint16_t>(plan_.mesh.tensor)};
  }
  co_yield out_.give_fresh();
  const Dep received = out_.after(streams_.pipeline(back, false));
  if (!parts) {
    wait_for(received);
    co_return;
  }
  co_yield collective(Lane::tensor, Operation::all_gather, last_layer_of(virtual_stage).output,
                      words_.pipeline_message[back ? 3 : 1], buffer, 0, received);
  wait_for(out_.after(streams_.recv(Lane::tensor)));
}

Ops TrainingStep::send(int virtual_stage, int micro_batch, bool back) {
  co_yield settle();
  const bool parts = sends_parts(virtual_stage);
  const int to = plan_.schedule->place_of(virtual_stage + (back ? 0 : 1), plan_.pipeline).stage;
  const Stream stream = streams_.pipeline(back, true);
  Op& op = out_.fresh(Kind::send, stream);
  op.group = words_.pipeline;
  op.name = words_.pipeline_message[back ? 2 : 0];
  op.message.bytes = last_layer_of(virtual_stage).output / (parts ? plan_.mesh.tensor : 1);
  op.message.slot = peers_.stage_slot[static_cast<std::size_t>(to)];
  op.message.tag = kStageMessages | static_cast<Tag>((micro_batch * plan_.virtual_stages() + virtual_stage) * 2 + back);
  // Receives are posted ahead: nobody waits for the receiver, the sender for its message where it does not overlap.
  op.message.mode = plan_.overlap_pipeline ? Mode::eager : Mode::put;
  op.deps[0] = out_.after(TrainingStreams::compute);
  if (plan_.values) {
    const std::uint16_t buffer = activation_buffer(virtual_stage, micro_batch, back, plan_.virtual_stages());
    op.effect.read = {buffer, 0, 1};
    if (parts)
      op.effect.read = {buffer, static_cast<std::uint16_t>(at_.tensor), static_cast<std::uint16_t>(plan_.mesh.tensor)};
  }
  co_yield out_.give_fresh();
  if (!plan_.overlap_pipeline) wait_for(out_.after(stream));
}

}  // namespace trainyard
