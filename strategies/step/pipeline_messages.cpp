#include "strategies/step/pipeline_messages.hpp"

namespace trainyard {
namespace {

// Tags of messages between stages. Tags of collectives count from 1 in their lane.
constexpr Tag kStageMessages = Tag{31} << 27;

BufferRef within(BufferRef part, TrainingBuffer buffer) {
  part.buffer = number_of(buffer);
  return part;
}

}  // namespace

bool PipelineMessages::is_on_other_rank(int virtual_stage) const {
  if (virtual_stage < 0 || virtual_stage >= step_.plan.virtual_stages() || step_.plan.pipeline.stages == 1)
    return false;
  return step_.plan.place_of(virtual_stage).stage != step_.place.pipeline;
}

const Layer& PipelineMessages::last_layer_of(int virtual_stage) const {
  const PipelinePlace place = step_.plan.place_of(virtual_stage);
  return step_.layer(step_.plan.stages[place.stage].chunks[place.chunk].back());
}

/// True if each tensor rank sends a part of the output that all of them have.
bool PipelineMessages::sends_parts(int virtual_stage) const {
  return step_.plan.scatter_gather && step_.plan.lane(Lane::tensor).is_used() &&
         !last_layer_of(virtual_stage).output_in_parts;
}

/// The peers on the stage that has the output, or on the later stage that takes it.
const RankPeers::StagePeers& PipelineMessages::peers(int virtual_stage, bool later) const {
  return step_.peers.stages[step_.plan.place_of(virtual_stage + (later ? 1 : 0)).stage];
}

Op& PipelineMessages::message(Kind kind, bool back, const StageMessage& message, int number) {
  const bool sending = kind == Kind::send;
  Op& op = step_.out.begin(kind, step_.streams.pipeline(back, sending),
                           step_.words.pipeline_message[(back ? 2U : 0U) + (sending ? 0U : 1U)], step_.words.pipeline);
  op.message.slot = message.slot;
  op.message.tag = kStageMessages | static_cast<Tag>(number);
  // Receives are posted ahead, so sends do not wait for the receiver. The sender waits for its message unless messages
  // overlap.
  if (!sending) return op;
  op.message.mode = step_.plan.overlap_pipeline ? Mode::eager : Mode::put;
  op.deps[0] = step_.out.last_operation(TrainingStreams::compute);
  return op;
}

Op& PipelineMessages::message(Kind kind, int virtual_stage, int micro_batch, bool back, const StageMessage& peer) {
  Op& op = message(kind, back, peer, (micro_batch * step_.plan.virtual_stages() + virtual_stage) * 2 + (back ? 1 : 0));
  if (!step_.plan.values) return op;
  const BufferRef part = values(virtual_stage, micro_batch, back, peer.part);
  if (kind == Kind::recv) op.effect.action = Action::copy;
  (kind == Kind::recv ? op.effect.write : op.effect.read) = part;
  return op;
}

BufferRef PipelineMessages::values(int virtual_stage, int micro_batch, bool back, BufferRef part) const {
  part = within(part, activation_message(virtual_stage, micro_batch, back, step_.plan.virtual_stages()));
  if (sends_parts(virtual_stage)) {
    part.chunk = static_cast<std::uint16_t>(step_.place.tensor);
    part.chunks = static_cast<std::uint16_t>(step_.plan.mesh.tensor);
  }
  return part;
}

Ops PipelineMessages::receive(int virtual_stage, int micro_batch, bool back) {
  for (const StageMessage& peer : peers(virtual_stage, back).takes) {
    message(Kind::recv, virtual_stage, micro_batch, back, peer);
    co_yield step_.out.emit();
  }
  const Dep received = step_.out.last_operation(step_.streams.pipeline(back, false));
  if (!sends_parts(virtual_stage)) {
    step_.waits.add(received);
    co_return;
  }
  const TrainingBuffer whole = activation_message(virtual_stage, micro_batch, back, step_.plan.virtual_stages());
  co_yield collectives_.run({Lane::tensor, Operation::all_gather, last_layer_of(virtual_stage).output,
                             step_.words.pipeline_message[back ? 3 : 1], step_.buffer(whole), received});
  step_.waits.add(collectives_.end_of(Lane::tensor));
}

Ops PipelineMessages::send(int virtual_stage, int micro_batch, bool back) {
  while (step_.waits.has_any()) co_yield step_.take_waits();
  const Bytes bytes = last_layer_of(virtual_stage).output / (sends_parts(virtual_stage) ? step_.plan.mesh.tensor : 1);
  const std::vector<StageMessage>& all = peers(virtual_stage, !back).sends;
  for (const StageMessage& peer : all) {
    message(Kind::send, virtual_stage, micro_batch, back, peer).message.bytes = bytes * peer.share;
    co_yield step_.out.emit();
  }
  if (!step_.plan.overlap_pipeline && !all.empty())
    step_.waits.add(step_.out.last_operation(step_.streams.pipeline(back, true)));
}

Ops PipelineMessages::sum_tied() {
  const RankPeers::StagePeers& tied = step_.peers.tied;
  if (!tied.has_messages()) co_return;
  // Buffer 0: the rank's own gradient; buffer 1: its sum with those of others.
  constexpr auto kBuffer = TrainingBuffer::Kind::tied;
  const int number = step_.plan.micro_batches * step_.plan.virtual_stages() * 2, stage = step_.place.pipeline;
  const double elements = tied_elements(step_.plan, stage);
  while (step_.waits.has_any()) co_yield step_.take_waits();
  for (int copy = 0; copy < 2 && step_.plan.values; ++copy) co_yield step_.call(TrainingCall::fill_tied, {copy});
  for (const StageMessage& peer : tied.sends) {
    Op& op = message(Kind::send, true, peer, number);
    op.message.bytes = elements * peer.share * step_.plan.gradient_element;
    if (step_.plan.values) op.effect.read = within(peer.part, {kBuffer, 0});
    co_yield step_.out.emit();
  }
  double added = 0;
  for (const StageMessage& peer : tied.takes) {
    Op& op = message(Kind::recv, true, peer, number);
    op.deps[0] = step_.out.last_operation(TrainingStreams::compute);  // the rank's own gradient is complete
    if (step_.plan.values) op.effect = {Action::reduce, 0, {}, within(peer.part, {kBuffer, 1})};
    added += elements * peer.part.count / peer.part.chunks;
    co_yield step_.out.emit();
  }
  for (const bool sending : {false, true})
    step_.waits.add(step_.out.last_operation(step_.streams.pipeline(true, sending)));
  Work sum = step_.plan.accumulation;
  sum.bytes = sum.bytes * added;
  if (added > 0) co_yield step_.work(sum, Kind::local, step_.words.compute, step_.words.accumulate);
  if (step_.plan.values) co_yield step_.call(TrainingCall::take_tied, {1});
}

}  // namespace trainyard
