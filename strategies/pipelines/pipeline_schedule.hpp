#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "models/reading/registry.hpp"

namespace trainyard {

/// One task of a pipeline stage. backward: gradients of inputs and weights; backward_input, backward_weights: one of
/// the two (Qi et al. 2023, Zero Bubble Pipeline Parallelism).
struct PipelineTask {
  enum class Pass : std::uint8_t { forward, backward, backward_input, backward_weights };
  Pass pass = Pass::forward;
  int micro_batch = 0;
  int chunk = 0;  ///< index of the stage's model chunk
  /// True if this forward pass and the backward pass after it are independent, here and on other stages. Their layers
  /// then alternate, so that the exchanges of one overlap with the kernels of the other (DeepSeek-AI 2024, figure 4;
  /// Megatron-Core's overlap_moe_expert_parallel_comm).
  bool beside_next = false;
  constexpr bool operator==(const PipelineTask&) const = default;
};
const char* name_of(PipelineTask::Pass);

/// Times of the passes of one micro-batch on a stage, in s (or in the slots of a figure). A backward pass that is not
/// split takes the sum of both parts.
struct PipelineTimes {
  double forward = 1, backward_input = 1, backward_weights = 1;
  bool operator==(const PipelineTimes&) const = default;
};

/// Largest `StageFigures::activation_limit` that can be stated.
constexpr double kMostActivationLimit = 16;

/// Figures of a mean stage, for schedules that are solved for them (`PipelineSchedule::solve`).
struct StageFigures {
  PipelineTimes times;
  double transfer = 0;  ///< time of a message from stage to stage, in the unit of `times`
  /// Share of the activations of a micro-batch that a stage keeps from the input-gradient to the weight-gradient pass.
  double kept_share = 1;
  double activation_limit = 1;  ///< most activations that a stage may keep, in those of 1f1b's first stage
  bool operator==(const StageFigures&) const = default;
};

struct PipelineShape {
  int stages = 1;
  int micro_batches = 1;
  int chunks = 1;  ///< number of model chunks of each stage (Megatron's virtual pipeline size)
  /// True if forward and backward passes alternate layer by layer wherever the schedule runs them side by side. One
  /// more forward pass then comes before the first backward pass, so that the two are of different micro-batches.
  bool pairs_passes = false;
  StageFigures figures = {};
  bool operator==(const PipelineShape&) const = default;
};

/// The place of a virtual stage. There are stages × chunks virtual stages, in the order of the network. If the pipeline
/// has several copies of the network, the virtual stages of a copy follow those of the copy before.
struct PipelinePlace {
  int stage = 0, chunk = 0;
};

using StageOrders = std::vector<std::vector<PipelineTask>>;  ///< the tasks of each stage, in order

/// A pipeline schedule: the order in which stages run their tasks.
struct PipelineSchedule {
  std::string name;
  std::string description;  ///< one line, with the paper
  /// The time that a stage idles in a step, and the activations that the fullest stage stores, in those of a micro-batch
  /// on a stage: formulas of the paper in p (stages), m (micro-batches), v (model chunks) and F, B, W (forward,
  /// input-gradient and weight-gradient pass of a micro-batch on a stage). The words after " if " say when the bubble
  /// holds; in the shape of a V it does up to a pass of a chunk. Those of zb-auto are for the memory of 1f1b.
  std::string bubble = "", activations = "";
  /// Returns all tasks of one stage, in order. Null: `all_tasks` or `solve` returns those of all stages.
  std::function<std::vector<PipelineTask>(int stage, const PipelineShape&)> tasks = {};
  /// Returns the place of a virtual stage. Null: virtual stage v is chunk v / stages of stage v % stages.
  std::function<PipelinePlace(int virtual_stage, const PipelineShape&)> place = {};
  /// Returns the reason why the schedule cannot run that shape, or "" if it can.
  std::function<std::string(const PipelineShape&)> refuses = {};
  int least_chunks = 1;  ///< least number of model chunks for each stage; also the default
  /// True if its paper interleaves a forward and a backward pass (see `PipelineTask::beside_next`).
  bool pairs_passes = false;
  /// Number of copies of the network that a pipeline holds. Each takes an equal share of the micro-batches, in order,
  /// and all sum their gradients. With 2, stages s and stages − 1 − s hold the same layers (see `Mesh::copies`).
  int copies = 1;
  /// Returns the tasks of each stage in an order that depends on `PipelineShape::figures`. Null: see `tasks`.
  std::function<StageOrders(const PipelineShape&)> solve = {};

  /// Returns the tasks of each stage in an order that follows from a run of all stages. Null: see `tasks`.
  std::function<StageOrders(const PipelineShape&)> all_tasks = {};

  bool is_solved() const { return solve != nullptr; }
  /// Returns the tasks of each stage, in order.
  StageOrders orders(const PipelineShape&) const;
  PipelinePlace place_of(int virtual_stage, const PipelineShape&) const;
  /// Returns the number of parts into which the network is divided: the virtual stages of one copy.
  int parts(const PipelineShape& shape) const { return shape.stages * shape.chunks / copies; }
  /// Returns true if no virtual stage sends activations to this one.
  bool begins_network(int virtual_stage, const PipelineShape& shape) const { return virtual_stage % parts(shape) == 0; }
  /// Returns true if this virtual stage sends activations to no other.
  bool ends_network(int virtual_stage, const PipelineShape& shape) const {
    return (virtual_stage + 1) % parts(shape) == 0;
  }
  int virtual_stage(int stage, int chunk, const PipelineShape&) const;
};

/// Tasks without a pipeline: each micro-batch goes forward, then back. With pairs_passes, the next one goes forward
/// first.
std::vector<PipelineTask> one_stage_tasks(int micro_batches, bool pairs_passes = false);

/// Reads the order of passes of each stage from a YAML file. Throws UserError "file:line:column: …" if a pass is
/// missing, comes twice, or waits for ever.
PipelineSchedule read_pipeline_schedule(const std::filesystem::path&);
/// Returns the text of a file with the order of that schedule. Passes stand one after another in it, also those that
/// the schedule runs side by side.
std::string pipeline_schedule_text(const PipelineSchedule&, const PipelineShape&);

/// Returns all schedules by name. A name that ends in .yaml is read as a file with an order of passes.
Registry<PipelineSchedule>& pipeline_schedules();
/// Finds a schedule by name. Throws UserError at `where` for an unknown name, or for a shape that it cannot run.
const PipelineSchedule& find_pipeline_schedule(const std::string& name, const PipelineShape&, const Place& where);

struct RegisterPipelineSchedule {
  explicit RegisterPipelineSchedule(PipelineSchedule schedule) {
    const std::string name = schedule.name;
    pipeline_schedules().add(name, std::move(schedule));
  }
};

}  // namespace trainyard
