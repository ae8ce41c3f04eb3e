#pragma once
#include <string>
#include <vector>

#include "models/reading/registry.hpp"

namespace trainyard {

/// One piece of work of a pipeline stage. backward: gradients of inputs and weights; backward_input, backward_weights:
/// one of the two (Qi et al. 2023, Zero Bubble Pipeline Parallelism).
struct PipelineTask {
  enum class Pass : std::uint8_t { forward, backward, backward_input, backward_weights };
  Pass pass = Pass::forward;
  int micro_batch = 0;
  int chunk = 0;  ///< of the stage's model chunks
  /// A forward pass and the backward pass after it, where none needs what the other makes, here or on another stage: their
  /// layers alternate, so that the exchanges of one go on beside the kernels of the other (DeepSeek-AI 2024, figure 4;
  /// Megatron-Core's overlap_moe_expert_parallel_comm).
  bool beside_next = false;
  constexpr bool operator==(const PipelineTask&) const = default;
};
const char* name_of(PipelineTask::Pass);

struct PipelineShape {
  int stages = 1;
  int micro_batches = 1;
  int chunks = 1;  ///< model chunks a stage (Megatron's virtual pipeline size)
  /// Forward and backward passes alternate where the schedule has them side by side, and one more forward pass comes
  /// before the first backward pass, so that they are of different micro-batches.
  bool pairs_passes = false;
};

/// Where a virtual stage lies: stages × chunks of them, in the order of the network.
struct PipelinePlace {
  int stage = 0, chunk = 0;
};

/// In what order the stages of a pipeline do their work.
struct PipelineSchedule {
  std::string name;
  std::string description;  ///< one line, with the paper
  /// All tasks of one stage, in order.
  std::vector<PipelineTask> (*tasks)(int stage, const PipelineShape&) = nullptr;
  /// Default: virtual stage v is chunk v / stages of stage v % stages.
  PipelinePlace (*place)(int virtual_stage, const PipelineShape&) = nullptr;
  /// Why it cannot do that shape, or "".
  std::string (*refuses)(const PipelineShape&) = nullptr;
  int least_chunks = 1;       ///< model chunks a stage that it needs, and has where nobody says
  bool pairs_passes = false;  ///< its paper interleaves a forward and a backward pass (see `PipelineTask::beside_next`)

  PipelinePlace place_of(int virtual_stage, const PipelineShape&) const;
  int virtual_stage(int stage, int chunk, const PipelineShape&) const;
};

/// Without a pipeline: each micro-batch forward, then back; with pairs_passes the next one forward before it goes back.
std::vector<PipelineTask> one_stage_tasks(int micro_batches, bool pairs_passes = false);

Registry<PipelineSchedule>& pipeline_schedules();
/// Throws UserError at `where` for an unknown name, and for a shape that it cannot do.
const PipelineSchedule& find_pipeline_schedule(const std::string& name, const PipelineShape&, const Place& where);

struct RegisterPipelineSchedule {
  explicit RegisterPipelineSchedule(PipelineSchedule schedule) {
    const std::string name = schedule.name;
    pipeline_schedules().add(name, std::move(schedule));
  }
};

}  // namespace trainyard
