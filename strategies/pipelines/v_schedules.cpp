// Schedules that go down the stages and up again, two chunks a stage.
#include <algorithm>
#include <array>
#include <deque>
#include <limits>

#include "strategies/pipelines/orders.hpp"

namespace trainyard {
namespace {

using Pass = PipelineTask::Pass;

constexpr int kPeriod = 6;  // slots of a micro-batch on a stage: forward, input and weight gradients of two chunks
constexpr int kNever = std::numeric_limits<int>::max();

/// A building block: the slots in which the passes of the first micro-batch begin on a stage, if each pass takes one
/// slot. Each further micro-batch repeats it `kPeriod` slots later. Weight gradients take the slots in between.
struct VBlock {
  int down, up, back_up, back_down;  ///< forward passes of the two chunks, and their input-gradient passes
};

/// A micro-batch takes one slot a stage in both directions, so that its activations are stored for the shortest time.
VBlock v_min_block(int stage, int stages) {
  const int gap = stages % 3 == 0 ? 2 : 0;  // without it, two passes would begin in the same slot
  const int turned = 2 * stages - 1;
  return {stage, turned - stage, turned + 1 + gap + stage, 2 * turned + 1 + gap - stage};
}

/// A micro-batch takes two slots a stage down, and one up.
VBlock v_half_block(int stage, int stages) {
  const int gap = stages % 2 == 0 ? 3 : 0;
  const int turned = 3 * stages - 2;
  return {2 * stage, turned - stage, turned + 1 + gap + 2 * stage, 2 * turned + 2 + gap - stage};
}

/// A micro-batch takes four slots a stage down, and two up. No slot remains free.
VBlock zb_v_block(int stage, int stages) {
  const int to_last = 4 * (stages - 1), to_first = 2 * (stages - 1);
  const int up = to_last + 1, back_up = up + to_first + 1, back_down = back_up + to_last + 1;
  return {4 * stage, up + to_first - 2 * stage, back_up + 4 * stage, back_down + to_first - 2 * stage};
}

/// The forward and input-gradient passes of a stage in the order of its block.
std::vector<PipelineTask> passes_in_order(const VBlock& block, int micro_batches) {
  const std::array<std::pair<int, PipelineTask>, 4> first_passes{{{block.down, {Pass::forward, 0, 0}},
                                                                  {block.up, {Pass::forward, 0, 1}},
                                                                  {block.back_up, {Pass::backward_input, 0, 1}},
                                                                  {block.back_down, {Pass::backward_input, 0, 0}}}};
  std::vector<std::pair<int, PipelineTask>> placed;
  for (int i = 0; i < micro_batches; ++i)
    for (auto [slot, task] : first_passes) {
      task.micro_batch = i;
      placed.emplace_back(slot + kPeriod * i, task);
    }
  std::ranges::sort(placed, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<PipelineTask> tasks;
  for (const auto& [slot, task] : placed) tasks.push_back(task);
  return tasks;
}

/// Runs all stages slot by slot. A stage executes its next pass if the inputs are there and its memory has room for it,
/// else its oldest pending weight-gradient pass. This closes gaps between the blocks at the beginning and at the end.
class VRun {
 public:
  VRun(VBlock (*block)(int, int), int most_stored, const PipelineShape& shape)
      : shape_(shape), most_stored_(most_stored), stages_(static_cast<std::size_t>(shape.stages)) {
    for (int stage = 0; stage < shape.stages; ++stage)
      stages_[stage].passes = passes_in_order(block(stage, shape.stages), shape.micro_batches);
    const std::size_t passes = std::size_t{2} * shape.stages * shape.micro_batches;
    forward_end_.assign(passes, kNever);
    backward_end_.assign(passes, kNever);
  }

  StageOrders orders() {
    std::size_t tasks = std::size_t{6} * shape_.micro_batches * shape_.stages;
    for (int slot = 0; tasks > 0; ++slot)
      for (int k = 0; k < shape_.stages; ++k) tasks -= step(k, slot) ? 1 : 0;
    StageOrders all;
    for (Stage& stage : stages_) all.push_back(std::move(stage.order));
    return all;
  }

 private:
  struct Stage {
    std::vector<PipelineTask> passes, order;
    std::deque<PipelineTask> pending;  // weight-gradient passes
    std::size_t next = 0;
    int stored = 0;  // chunks whose activations are stored
  };
  PipelineShape shape_;
  int most_stored_;
  std::vector<Stage> stages_;
  std::vector<int> forward_end_, backward_end_;  // slot, by virtual stage and micro-batch

  std::size_t number(int virtual_stage, int micro_batch) const {
    return static_cast<std::size_t>(virtual_stage) * shape_.micro_batches + micro_batch;
  }

  bool can_run(const Stage& s, const PipelineTask& task, int v, int slot) const {
    if (task.pass == PipelineTask::Pass::forward)
      return s.stored < most_stored_ && (v == 0 || forward_end_[number(v - 1, task.micro_batch)] <= slot);
    const bool last = v + 1 == 2 * shape_.stages;
    return forward_end_[number(v, task.micro_batch)] <= slot &&
           (last || backward_end_[number(v + 1, task.micro_batch)] <= slot);
  }

  /// Executes a task of the stage in that slot. Returns false if there was none.
  bool step(int stage, int slot) {
    Stage& s = stages_[stage];
    if (s.next < s.passes.size()) {
      const PipelineTask& task = s.passes[s.next];
      const int v = task.chunk == 0 ? stage : 2 * shape_.stages - 1 - stage;
      if (can_run(s, task, v, slot)) {
        const bool forward = task.pass == PipelineTask::Pass::forward;
        (forward ? forward_end_ : backward_end_)[number(v, task.micro_batch)] = slot + 1;
        s.stored += forward ? 1 : 0;
        if (!forward) s.pending.push_back({PipelineTask::Pass::backward_weights, task.micro_batch, task.chunk});
        s.order.push_back(task);
        ++s.next;
        return true;
      }
    }
    if (s.pending.empty()) return false;
    s.order.push_back(s.pending.front());
    s.pending.pop_front();
    --s.stored;
    return true;
  }
};

/// A stage stores activations of about stages / 3 micro-batches, two chunks each.
StageOrders v_min_orders(const PipelineShape& shape) {
  return VRun(v_min_block, 2 * ((shape.stages + 4) / 3), shape).orders();
}
StageOrders v_half_orders(const PipelineShape& shape) {
  return VRun(v_half_block, 2 * ((shape.stages + 2) / 2), shape).orders();
}
StageOrders zb_v_orders(const PipelineShape& shape) { return VRun(zb_v_block, 2 * shape.stages, shape).orders(); }

/// Returns a schedule in the shape of a V, whose stages have two chunks. Its bubble holds if F = B = W and there are at least as many
/// micro-batches as stages.
PipelineSchedule v_schedule(const char* name, const char* description, const char* bubble, const char* activations,
                            StageOrders (*orders)(const PipelineShape&)) {
  return {.name = name,
          .description = description,
          .bubble = std::string(bubble) + " if F = B = W and m >= p",
          .activations = activations,
          .place = v_place,
          .refuses = refuse_other_than_v,
          .least_chunks = 2,
          .all_tasks = orders};
}

const RegisterPipelineSchedule registered_v_min{v_schedule(
    "v-min", "zb-v with about a third of 1f1b's activations and one more (Qi et al. 2024, Controllable Memory)",
    "(p - 1) * (F + B + W) * 2 / 3", "floor((p + 4) / 3)", v_min_orders)};
const RegisterPipelineSchedule registered_v_half{
    v_schedule("v-half", "zb-v with half of 1f1b's activations and one more (Qi et al. 2024, Controllable Memory)",
               "(p - 1) * (F + B + W) / 2", "floor(p / 2) + 1", v_half_orders)};
const RegisterPipelineSchedule registered_zb_v{
    v_schedule("zb-v", "down the stages and up again, idle only at the ends, in 1f1b's memory (Qi et al. 2023, ZB-V)",
               "(p - 1) * F / 2", "p", zb_v_orders)};

}  // namespace
}  // namespace trainyard
