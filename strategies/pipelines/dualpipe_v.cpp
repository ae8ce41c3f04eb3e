#include <fmt/format.h>

#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

/// The eight steps of DualPipeV (half of DeepSeek-AI 2024's DualPipe: one direction, with both of its chunks on each
/// stage). At the beginning and at the end, backward passes are split in two, and weight gradients fill idle time.
std::vector<PipelineTask> dualpipe_v_tasks(int stage, const PipelineShape& shape) {
  const int behind = shape.stages - stage - 1;  // stages after this one
  constexpr int down = 0, up = 1;
  TaskOrder order(2);
  for (int i = 0; i < 2 * behind; ++i) order.forward(down);
  for (int i = 0; i <= stage; ++i) {
    order.forward(down);
    order.forward(up);
  }
  for (int i = 0; i < behind; ++i) {
    order.backward_input(up);
    order.backward_weights();
    order.forward(up);
  }
  while (order.forwards(down) < shape.micro_batches) {
    order.forward_and_backward(down, up, shape.pairs_passes);
    order.forward_and_backward(up, down, shape.pairs_passes);
  }
  for (int i = 0; i < behind; ++i) {
    order.backward(up);
    order.forward_and_backward(up, down, shape.pairs_passes);
  }
  // 2 (stage + 1) backward passes, alternating up and down; the second half delays the weight gradients.
  for (int i = 0; i < 2 * (stage + 1); ++i) {
    const int chunk = i % 2 == 0 ? up : down;
    if (i <= stage)
      order.backward(chunk);
    else
      order.backward_input(chunk);
  }
  for (int i = 0; i < behind; ++i) {
    order.backward_weights();
    order.backward_input(down);
  }
  while (order.pending() > 0) order.backward_weights();
  return order.take();
}

std::string refuse_short_v(const PipelineShape& shape) {
  if (std::string chunks = refuse_other_than_v(shape); !chunks.empty()) return chunks;
  if (shape.micro_batches >= 2 * shape.stages) return "";
  return fmt::format("{} micro-batches for {} stages; at least {}, twice as many", shape.micro_batches, shape.stages,
                     2 * shape.stages);
}

const RegisterPipelineSchedule registered_dualpipe_v{
    {"dualpipe-v", "down the stages and up again, two chunks a stage (DeepSeek-AI 2024, DualPipe, cut in half)",
     dualpipe_v_tasks, v_place, refuse_short_v, 2, true}};

}  // namespace
}  // namespace trainyard
