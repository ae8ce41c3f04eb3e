#include <algorithm>

#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

/// Stage k goes forward stages − k − 1 times, then forward and back in turn, then back: GPipe's bubble, but stage k keeps
/// the activations of stages − k micro-batches at most.
std::vector<PipelineTask> one_f_one_b_tasks(int stage, const PipelineShape& shape) {
  const int ahead = std::min(shape.stages - stage - (shape.pairs_passes ? 0 : 1), shape.micro_batches);
  TaskOrder order;
  for (int i = 0; i < ahead; ++i) order.forward();
  for (int i = ahead; i < shape.micro_batches; ++i) order.forward_and_backward(0, 0, shape.pairs_passes);
  for (int i = 0; i < ahead; ++i) order.backward();
  return order.take();
}

const RegisterPipelineSchedule registered_one_f_one_b{
    {"1f1b", "one forward, one backward in turn, with a flush (Narayanan et al. 2021, PipeDream-flush)",
     one_f_one_b_tasks, nullptr, refuse_chunks}};

}  // namespace
}  // namespace trainyard
