// Samples come in: the first stage waits for each micro-batch before its forward pass, and holds some ahead.
#include <algorithm>

#include "strategies/plan/input_plan.hpp"
#include "strategies/step/training_step.hpp"

namespace trainyard {

bool TrainingStep::takes_input() const {
  return plan_.input.used() && plan_.input.loader_of_rank[static_cast<std::size_t>(rank_)] >= 0;
}

/// Receives go out ahead, as far as there are buffers on the GPU: the one for a batch after the batch that had its buffer
/// before is used up. The next kernel waits for the batch that is due.
Ops TrainingStep::take_input() {
  if (plan_.input.asks && at_.tensor == 0) {
    co_yield settle();
    Op& op = out_.fresh(Kind::send, streams_.input_request());
    op.group = words_.input;
    op.name = words_.ask_input;
    op.message.slot = peers_.input_slot;
    op.message.tag = kInputMessages;
    op.message.mode = Mode::eager;
    op.deps[0] = out_.after(TrainingStreams::compute);
    co_yield out_.give_fresh();
  }
  const int all = plan_.steps * plan_.micro_batches;
  for (; input_asked_ < std::min(all, input_taken_ + 1 + plan_.input.ahead); ++input_asked_) {
    Op& op = out_.fresh(Kind::recv, streams_.input());
    op.group = words_.input;
    op.name = words_.receive_input;
    op.message.slot = peers_.input_slot;
    op.message.tag = kInputMessages;
    op.memory.change = plan_.input.held.value;
    op.set_memory_class(static_cast<std::uint8_t>(MemoryClass::buffers));
    op.deps[0] = input_used_;
    co_yield out_.give_fresh();
  }
  ++input_taken_;
  wait_for({static_cast<std::uint32_t>(input_taken_), streams_.input()});
}

/// Its forward pass through this stage is over: the buffer is free for another one.
Ops TrainingStep::release_input() {
  co_yield holds(-plan_.input.held.value, MemoryClass::buffers, words_.receive_input, TrainingStreams::compute, {});
  input_used_ = out_.after(TrainingStreams::compute);
}

}  // namespace trainyard
