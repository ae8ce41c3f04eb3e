#pragma once
#include <string>
#include <vector>

#include "strategies/pipelines/pipeline_schedule.hpp"

namespace trainyard {

/// Refuses more than one model chunk, for schedules that run a stage as one piece. Returns the reason, or "".
std::string refuse_chunks(const PipelineShape&);

/// The network goes down the stages and up again: each stage has one chunk in either direction.
PipelinePlace v_place(int virtual_stage, const PipelineShape&);
/// Refuses any number of model chunks but two. Returns the reason, or "".
std::string refuse_other_than_v(const PipelineShape&);

/// Builds a list of tasks, one after another. Each kind of pass of each chunk counts its micro-batches in turn.
class TaskOrder {
 public:
  explicit TaskOrder(int chunks = 1)
      : forwards_(static_cast<std::size_t>(chunks)), backwards_(static_cast<std::size_t>(chunks)) {}

  void forward(int chunk = 0);
  void backward(int chunk = 0);
  /// Adds a forward pass of one chunk and a backward pass of another one (or the same). `alternate`: see
  /// PipelineTask::beside_next.
  void forward_and_backward(int forward_chunk, int backward_chunk, bool alternate);
  void backward_input(int chunk = 0);
  /// Adds the oldest pending weight-gradient pass.
  void backward_weights();

  int forwards(int chunk = 0) const { return forwards_[chunk]; }
  std::size_t pending() const { return pending_tasks_.size() - taken_; }
  std::vector<PipelineTask> take() { return std::move(tasks_); }

 private:
  std::vector<int> forwards_, backwards_;  // number of passes so far, by chunk
  std::vector<PipelineTask> tasks_, pending_tasks_;
  std::size_t taken_ = 0;
};

/// One forward, one backward, with delayed weight gradients (Qi et al. 2023). First, `ahead` micro-batches go forward.
/// Then the stage alternates between an input-gradient pass and one more forward pass; in between it computes the
/// weight gradients of the micro-batch `delay` places earlier. The remaining weight gradients come last.
std::vector<PipelineTask> delayed_weights_order(int micro_batches, int ahead, int delay);

}  // namespace trainyard
