// DualPipe, and the half of it that keeps one copy of the network.
#include <fmt/format.h>

#include <algorithm>

#include "sim/units.hpp"
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

/// DualPipe (DeepSeek-AI 2024, figure 5): half of the micro-batches enter at the first stage, the others at the last.
/// Chunk 0 of stage r is part r of the network, chunk 1 is part stages − 1 − r of a second copy. Stage r and stage
/// stages − 1 − r thereby execute the same layers at the same time: each half of the pipeline runs the passes of
/// DualPipeV.
///
/// Each stage keeps two parts' parameters and the activations of stages + 1 micro-batches, as in table 2. It idles for
/// (stages/2 − 1)(F&B + B − 3W), as in that table, if a pair of passes is one piece of work that sends its messages at
/// its end. It idles for (stages/2 − 1)(F + B − 2W) if each pass of a pair sends its message at its own end. The second
/// is shorter by (stages/2 − 1)(B − W) if a pair takes F&B = F + B. F: forward pass, B: backward pass, W: its part for
/// the weights. Both hold if F = B − W is at least W.
std::vector<PipelineTask> dualpipe_tasks(int stage, const PipelineShape& shape) {
  const int opposite = shape.stages - 1 - stage, share = shape.micro_batches / 2;
  PipelineShape half = shape;
  half.stages /= 2;
  half.micro_batches = share;
  std::vector<PipelineTask> tasks = dualpipe_v_tasks(std::min(stage, opposite), half);
  for (PipelineTask& task : tasks) {
    if (opposite < stage) task.chunk = 1 - task.chunk;  // the last stage is the near end
    if (task.chunk == 1) task.micro_batch += share;
  }
  return tasks;
}

std::string refuse_short_v(const PipelineShape& shape) {
  if (std::string chunks = refuse_other_than_v(shape); !chunks.empty()) return chunks;
  if (shape.micro_batches >= 2 * shape.stages) return "";
  return fmt::format("{} for {}; at least {}, twice as many",
                     counted_noun(shape.micro_batches, "micro-batch", "micro-batches"),
                     counted_noun(shape.stages, "stage"), 2 * shape.stages);
}

/// Refuses shapes whose halves, one for each direction, differ.
std::string refuse_unequal_halves(const PipelineShape& shape) {
  const auto odd = [](int number, const char* what) {
    return fmt::format("{} {}; an even number is expected, half of them for each direction; nearest: {}", number, what,
                       number > 1 ? fmt::format("{} or {}", number - 1, number + 1) : "2");
  };
  if (shape.chunks == 2 && shape.stages % 2 != 0) return odd(shape.stages, shape.stages == 1 ? "stage" : "stages");
  if (std::string reason = refuse_short_v(shape); !reason.empty()) return reason;
  return shape.micro_batches % 2 == 0 ? "" : odd(shape.micro_batches, "micro-batches");
}

const RegisterPipelineSchedule registered_dualpipe_v{
    {"dualpipe-v", "down the stages and up again, two chunks a stage (DeepSeek-AI 2024, DualPipe, cut in half)",
     "(p - 1) * F / 2 if F = B = W", "p + 1 / 2", dualpipe_v_tasks, v_place, refuse_short_v, 2, true}};
const RegisterPipelineSchedule registered_dualpipe{
    {"dualpipe", "micro-batches from both ends of the stages, over two copies of the network (DeepSeek-AI 2024)",
     "(p / 2 - 1) * (F + 2 * B - W) if F and B end together", "p + 1", dualpipe_tasks, v_place, refuse_unequal_halves,
     2, true, 2}};

}  // namespace
}  // namespace trainyard
