#pragma once
#include <string>
#include <vector>

#include "strategies/pipelines/pipeline_schedule.hpp"

namespace trainyard {

/// What schedules have in common that run a stage as one piece: why they cannot do more chunks than one, or "".
std::string refuse_chunks(const PipelineShape&);

/// An order of tasks, written down one after another: each pass of each chunk takes its micro-batches in turn.
class TaskOrder {
 public:
  explicit TaskOrder(int chunks = 1)
      : forwards_(static_cast<std::size_t>(chunks)), backwards_(static_cast<std::size_t>(chunks)) {}

  void forward(int chunk = 0);
  void backward(int chunk = 0);
  /// A forward pass of one chunk and a backward pass of another (or the same); alternate: see PipelineTask::beside_next.
  void forward_and_backward(int forward_chunk, int backward_chunk, bool alternate);
  void backward_input(int chunk = 0);
  /// The oldest gradient by the weights that is still owed.
  void backward_weights();

  int forwards(int chunk = 0) const { return forwards_[chunk]; }
  std::size_t owed() const { return tasks_owed_.size() - paid_; }
  std::vector<PipelineTask> take() { return std::move(tasks_); }

 private:
  std::vector<int> forwards_, backwards_;  // so many so far, by chunk
  std::vector<PipelineTask> tasks_, tasks_owed_;
  std::size_t paid_ = 0;
};

/// One forward, one backward, the gradients by the weights put off (Qi et al. 2023): `ahead` micro-batches go forward,
/// then one by the input and one more forward in turn, and the gradients by the weights of the micro-batch `delay` ones
/// earlier in between. What is left of these comes last.
std::vector<PipelineTask> delayed_weights_order(int micro_batches, int ahead, int delay);

}  // namespace trainyard
