#include <algorithm>

#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

/// Stage k runs stages − k − 1 forward passes, then alternates forward and backward passes, then runs the remaining
/// backward passes. The bubble is that of GPipe, but stage k keeps the activations of at most stages − k
/// micro-batches.
std::vector<PipelineTask> one_f_one_b_tasks(int stage, const PipelineShape& shape) {
  const int ahead = std::min(shape.stages - stage - (shape.pairs_passes ? 0 : 1), shape.micro_batches);
  TaskOrder order;
  for (int i = 0; i < ahead; ++i) order.forward();
  for (int i = ahead; i < shape.micro_batches; ++i) order.forward_and_backward(0, 0, shape.pairs_passes);
  for (int i = 0; i < ahead; ++i) order.backward();
  return order.take();
}

const RegisterPipelineSchedule registered_one_f_one_b{
    {"1f1b", "alternates one forward and one backward pass, with a flush (Narayanan et al. 2021, PipeDream-flush)",
     "(p - 1) * (F + B + W)", "p", one_f_one_b_tasks, nullptr, refuse_chunks}};

}  // namespace
}  // namespace trainyard
