#include <fmt/format.h>

#include <algorithm>

#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

/// Returns the i-th forward (or backward) task of a stage, in Megatron-LM's order: `stages` micro-batches through one
/// chunk, then the same ones through the next. Backward passes begin with the last chunk.
PipelineTask interleaved_task(PipelineTask::Pass pass, int i, const PipelineShape& shape) {
  const int round = shape.stages * shape.chunks;
  const int chunk = i % round / shape.stages;
  return {pass, i / round * shape.stages + i % shape.stages,
          pass == PipelineTask::Pass::forward ? chunk : shape.chunks - 1 - chunk};
}

/// Megatron-LM's number of forward passes before the first backward pass: the micro-batches of later chunks must come
/// round, and twice the distance to the last stage is under way as well.
int interleaved_ahead(int stage, const PipelineShape& shape) {
  const int ahead = 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages + (shape.pairs_passes ? 1 : 0);
  return std::min(ahead, shape.micro_batches * shape.chunks);
}

std::vector<PipelineTask> interleaved_tasks(int stage, const PipelineShape& shape) {
  const int all = shape.micro_batches * shape.chunks, ahead = interleaved_ahead(stage, shape);
  std::vector<PipelineTask> tasks;
  const auto add = [&](PipelineTask::Pass pass, int i) { tasks.push_back(interleaved_task(pass, i, shape)); };
  for (int i = 0; i < ahead; ++i) add(PipelineTask::Pass::forward, i);
  for (int i = 0; i < all - ahead; ++i) {
    add(PipelineTask::Pass::forward, ahead + i);
    tasks.back().beside_next = shape.pairs_passes;
    add(PipelineTask::Pass::backward, i);
  }
  for (int i = all - ahead; i < all; ++i) add(PipelineTask::Pass::backward, i);
  return tasks;
}

std::string refuse_interleaving(const PipelineShape& shape) {
  if (shape.stages < 2) return "1 stage; this schedule interleaves the chunks of several";
  if (shape.chunks < 2) return "1 model chunk on each stage; this schedule interleaves several (1f1b runs one)";
  if (shape.micro_batches % shape.stages == 0) return "";
  const int below = shape.micro_batches / shape.stages * shape.stages, above = below + shape.stages;
  return fmt::format("{} micro-batches are no multiple of the {} stages; nearest: {}", shape.micro_batches,
                     shape.stages,
                     below > 0 && shape.micro_batches - below < above - shape.micro_batches ? below : above);
}

const RegisterPipelineSchedule registered_interleaved{
    {"interleaved-1f1b", "1f1b over several model chunks a stage (Narayanan et al. 2021, Megatron-LM)",
     "(p - 1) * (F + B + W) / v", "p + (p - 1) / v", interleaved_tasks, nullptr, refuse_interleaving, 2}};

}  // namespace
}  // namespace trainyard
