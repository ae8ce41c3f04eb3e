#include "strategies/step/input_batches.hpp"

#include <algorithm>

#include "strategies/plan/input_plan.hpp"

namespace trainyard {

bool InputBatches::used() const { return step_.plan.input.used() && step_.plan.input.loader_of_rank[step_.rank] >= 0; }

Ops InputBatches::take() {
  if (step_.plan.input.asks && step_.at.tensor == 0) {
    while (step_.waits.any()) co_yield step_.take_waits();
    co_yield ask();
  }
  const int all = step_.plan.steps * step_.plan.micro_batches;
  for (; posted_ < std::min(all, taken_ + 1 + step_.plan.input.ahead); ++posted_) co_yield receive();
  ++taken_;
  step_.waits.add({static_cast<std::uint32_t>(taken_), step_.streams.input()});
}

const Op& InputBatches::ask() {
  Op& op = step_.out.begin(Kind::send, step_.streams.input_request(), step_.words.ask_input, step_.words.input,
                           step_.out.after(TrainingStreams::compute));
  op.address(step_.peers.input_slot, kInputMessages, Mode::eager);
  return step_.out.emit();
}

const Op& InputBatches::receive() {
  Op& op = step_.out.begin(Kind::recv, step_.streams.input(), step_.words.receive_input, step_.words.input);
  op.address(step_.peers.input_slot, kInputMessages);
  op.book_memory(step_.plan.input.held.value, MemoryClass::buffers);
  op.deps[0] = released_;
  return step_.out.emit();
}

const Op& InputBatches::release() {
  const Op& op = step_.change_memory(-step_.plan.input.held.value, MemoryClass::buffers, step_.words.receive_input);
  released_ = step_.out.after(TrainingStreams::compute);
  return op;
}

}  // namespace trainyard
