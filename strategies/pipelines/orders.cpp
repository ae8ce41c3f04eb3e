#include "strategies/pipelines/orders.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

std::string refuse_chunks(const PipelineShape& shape) {
  if (shape.chunks == 1) return "";
  return fmt::format("{} model chunks on each stage; this schedule runs one (interleaved-1f1b runs several)",
                     shape.chunks);
}

PipelinePlace v_place(int virtual_stage, const PipelineShape& shape) {
  if (virtual_stage < shape.stages) return {virtual_stage, 0};
  return {2 * shape.stages - 1 - virtual_stage, 1};
}

std::string refuse_other_than_v(const PipelineShape& shape) {
  if (shape.chunks == 2) return "";
  return fmt::format("model chunks on each stage: {}; this schedule needs 2, one down and one up", shape.chunks);
}

void TaskOrder::forward(int chunk) { tasks_.push_back({PipelineTask::Pass::forward, forwards_[chunk]++, chunk}); }

void TaskOrder::backward(int chunk) { tasks_.push_back({PipelineTask::Pass::backward, backwards_[chunk]++, chunk}); }

void TaskOrder::forward_and_backward(int forward_chunk, int backward_chunk, bool alternate) {
  forward(forward_chunk);
  tasks_.back().beside_next = alternate;
  backward(backward_chunk);
}

void TaskOrder::backward_input(int chunk) {
  const int micro_batch = backwards_[chunk]++;
  tasks_.push_back({PipelineTask::Pass::backward_input, micro_batch, chunk});
  pending_tasks_.push_back({PipelineTask::Pass::backward_weights, micro_batch, chunk});
}

void TaskOrder::backward_weights() { tasks_.push_back(pending_tasks_.at(taken_++)); }

std::vector<PipelineTask> delayed_weights_order(int micro_batches, int ahead, int delay) {
  TaskOrder order;
  for (int i = 0; i < std::min(ahead, micro_batches); ++i) order.forward();
  for (int i = 0; i < micro_batches; ++i) {
    order.backward_input();
    if (i >= delay) order.backward_weights();
    if (order.forwards() < micro_batches) order.forward();
  }
  while (order.pending() > 0) order.backward_weights();
  return order.take();
}

}  // namespace trainyard
