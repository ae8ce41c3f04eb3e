#include "scenarios/src/running/slowest_replicas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "sim/index.hpp"
#include "strategies/step/pass_table.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// Sets of ranks that are joined step by step.
class JoinedRanks {
 public:
  explicit JoinedRanks(int ranks) : parent_(position(ranks)) { std::iota(parent_.begin(), parent_.end(), 0); }
  int first(int rank) {
    while (parent_[position(rank)] != rank) {
      parent_[position(rank)] = parent_[position(parent_[position(rank)])];
      rank = parent_[position(rank)];
    }
    return rank;
  }
  void join(int a, int b) {
    a = first(a);
    b = first(b);
    parent_[position(std::max(a, b))] = std::min(a, b);
  }

 private:
  std::vector<int> parent_;
};

/// Whether all members of a lane's groups meet in each pass through a layer.
bool meets_in_layers(const TrainingPlan& plan, Lane lane) {
  switch (lane) {
    case Lane::tensor:
    case Lane::context:
    case Lane::expert:
    case Lane::expert_tensor:
    case Lane::maxima:
      return true;
    case Lane::parameters:
    case Lane::expert_parameters:
      return plan.zero == ZeroStage::parameters;
    default:
      return false;
  }
}

double seconds_of(const Scenario& s, const Layer& layer, PipelineTask::Pass pass) {
  double sum = 0;
  const auto add = [&](const KernelCall& call) { sum += kernel_cost(s.cluster.node, s.software, call.work).value; };
  if (pass == PipelineTask::Pass::forward)
    for (const KernelCall& call : layer.forward) add(call);
  else
    for (const BackwardKernel& call : layer.backward)
      if (pass == PipelineTask::Pass::backward || call.for_weights == (pass == PipelineTask::Pass::backward_weights))
        add(call);
  return sum;
}

}  // namespace

SlowestReplicas::SlowestReplicas(const Scenario& s, const TrainingPlan& plan, const StragglerMachine& machine,
                                 int steps)
    : plan_(plan), stragglers_(machine.stragglers()), steps_(steps) {
  if (plan.updates || plan.through_center)
    refusal_ = "replicas do not sum their gradients in each step";
  else if (!plan.mesh.widths.empty())
    refusal_ = "stages have different numbers of ranks";
  else if (plan.zero == ZeroStage::gradients && !plan.sync_last && plan.mesh.pipeline > 1)
    refusal_ = "replicas exchange gradients in each micro-batch of a pipeline";
  if (refusal_.empty()) find_groups();
  if (refusal_.empty()) require_alike(machine.base());
  if (refusal_.empty()) order_tasks(s);
  if (refusal_.empty()) choose(Draws::some_replicas);
}

/// Lockstep groups, and replicas: lockstep groups whose stages exchange messages.
void SlowestReplicas::find_groups() {
  JoinedRanks near(plan_.ranks());
  for (int lane = 0; lane < kLanes; ++lane)
    if (meets_in_layers(plan_, static_cast<Lane>(lane)))
      for (const LaneGroup& group : plan_.lanes[position(lane)].groups)
        for (const int member : group.members) near.join(group.members.front(), member);
  JoinedRanks replicas = near;
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    Coordinates first = plan_.mesh.of(rank);
    first.pipeline = 0;
    replicas.join(plan_.mesh.rank(first), rank);
  }
  std::vector<int> group_at(position(plan_.ranks()), -1), replica_at = group_at;
  std::vector<std::size_t> sizes;
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    int& replica = replica_at[position(replicas.first(rank))];
    if (replica < 0) {
      replica = static_cast<int>(groups_.size());
      groups_.emplace_back(position(plan_.mesh.pipeline), -1);
    }
    int& group = group_at[position(near.first(rank))];
    const int stage = plan_.mesh.of(rank).pipeline;
    if (group < 0) {
      group = static_cast<int>(sizes.size());
      sizes.push_back(0);
      stage_of_group_.push_back(stage);
      replica_of_group_.push_back(replica);
      int& place = groups_[position(replica)][position(stage)];
      if (place >= 0) refusal_ = "a stage of a replica has ranks that do not meet in its layers";
      place = group;
    }
    ++sizes[position(group)];
    group_of_rank_.push_back(group);
  }
  largest_ = *std::max_element(sizes.begin(), sizes.end());
  if (largest_ != *std::min_element(sizes.begin(), sizes.end())) refusal_ = "groups of ranks differ in size";
}

void SlowestReplicas::require_alike(const Machine& machine) {
  std::vector<Actor> first(position(plan_.mesh.pipeline), -1);
  for (Actor rank = 0; rank < plan_.ranks(); ++rank) {
    Actor& of_stage = first[position(stage_of_group_[position(group_of_rank_[position(rank)])])];
    if (of_stage < 0) of_stage = rank;
    if (machine.likeness(rank) != machine.likeness(of_stage)) refusal_ = "ranks of a stage have unlike GPUs";
  }
}

void SlowestReplicas::order_tasks(const Scenario& s) {
  const auto stages = position(plan_.mesh.pipeline);
  const auto micro_batches = position(plan_.micro_batches);
  std::vector<int> forward(position(plan_.virtual_stages()) * micro_batches, -1), backward = forward;
  std::vector<std::size_t> next(stages, 0);
  const auto at = [micro_batches](std::vector<int>& tasks, int v, int micro_batch) -> int& {
    return tasks[position(v) * micro_batches + position(micro_batch)];
  };
  std::vector<std::vector<std::array<double, kPasses>>> seconds(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const StagePlan& plan = plan_.stages[stage];
    update_.push_back(rank_time(s.cluster.node, s.software, plan.optimizer).value);
    for (const std::vector<int>& chunk : plan.chunks) {
      std::array<double, kPasses>& times = seconds[stage].emplace_back();
      for (int pass = 0; pass < kPasses; ++pass)
        for (const int layer : chunk)
          times[position(pass)] +=
              seconds_of(s, plan_.network->layers[position(layer)], static_cast<PipelineTask::Pass>(pass));
    }
  }
  const auto add_next = [&](int stage) {
    const std::vector<PipelineTask>& tasks = plan_.stages[position(stage)].tasks;
    if (next[position(stage)] == tasks.size()) return false;
    const PipelineTask& task = tasks[next[position(stage)]];
    const int v = plan_.schedule ? plan_.schedule->virtual_stage(stage, task.chunk, plan_.pipeline) : 0;
    const bool is_forward = task.pass == PipelineTask::Pass::forward;
    int after = -1;
    if (is_forward && v > 0) {
      after = at(forward, v - 1, task.micro_batch);
      if (after < 0) return false;
    } else if (!is_forward && task.pass != PipelineTask::Pass::backward_weights && v + 1 < plan_.virtual_stages()) {
      after = at(backward, v + 1, task.micro_batch);
      if (after < 0) return false;
    }
    const int index = static_cast<int>(tasks_.size());
    tasks_.push_back(
        {stage, after, seconds[position(stage)][position(task.chunk)][position(static_cast<int>(task.pass))]});
    if (task.pass != PipelineTask::Pass::backward_weights)
      at(is_forward ? forward : backward, v, task.micro_batch) = index;
    ++next[position(stage)];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < plan_.mesh.pipeline; ++stage)
      while (add_next(stage)) moved = true;
  }
}

void SlowestReplicas::choose(Draws draws) {
  draws_ = draws;
  factors_.assign(position(steps_), {});
  const std::size_t replicas = groups_.size();
  keeps_.assign(replicas, draws == Draws::some_replicas);
  if (draws != Draws::some_replicas || 2 * kSlowest * position(steps_) >= replicas) return;
  keeps_.assign(replicas, false);
  for (int step = 0; step < steps_; ++step) {
    const auto number = static_cast<std::uint32_t>(step);
    const std::vector<int> order = ranking(number, slowest_members(number));
    for (std::size_t i = 0; i < kSlowest; ++i) keeps_[position(order[i])] = true;
  }
}

bool SlowestReplicas::replicas_meet_at_once() const {
  for (int lane = 0; lane < kLanes; ++lane)
    if (!meets_in_layers(plan_, static_cast<Lane>(lane)) && static_cast<Lane>(lane) != Lane::tied)
      for (const LaneGroup& group : plan_.lanes[position(lane)].groups)
        if (group.settings.fidelity != Fidelity::modelled) return false;
  return true;
}

std::string SlowestReplicas::in_words() const {
  std::string words;
  if (largest_ > 1)
    words = fmt::format("each rank is as slow as the slowest of the {} that meet in every layer", largest_);
  const std::size_t replicas = groups_.size();
  const auto kept = static_cast<std::size_t>(std::count(keeps_.begin(), keeps_.end(), true));
  if (kept == replicas) return words;
  if (!words.empty()) words += "; ";
  if (draws_ == Draws::one_replica) return words + "all replicas are as slow as the slowest of the step";
  return words + fmt::format(
                     "{} of {} replicas, the slowest {} of each step, have their own draws, the others those of the "
                     "replica in the middle",
                     kept, replicas, kSlowest);
}

std::uint64_t SlowestReplicas::likeness(Actor rank) const {
  const auto replica = position(replica_of_group_[position(group_of_rank_[position(rank)])]);
  return keeps_[replica] ? replica + 1 : 0;
}

double SlowestReplicas::own_work(Actor rank, int first, int behind) const {
  double own = 0, shared = 0;
  for (int step = first; step < behind; ++step) {
    own += slowdown(stragglers_, rank, static_cast<std::uint32_t>(step));
    shared += factor(rank, static_cast<std::uint32_t>(step));
  }
  return shared > 0 ? own / shared : 1;
}

DrawnSteps SlowestReplicas::further_draws(double mean, int first, int behind) const {
  const auto end_of = [this](int step) {
    const auto number = static_cast<std::uint32_t>(step);
    const std::vector<double> ends = replica_ends(number, slowest_members(number));
    return *std::max_element(ends.begin(), ends.end());
  };
  double seen = 0;
  for (int step = first; step < behind; ++step) seen += end_of(step) / (behind - first);
  // Some tenths of a second of the recurrence, and at most so many draws that their mean is known to a few thousandths.
  constexpr double kMostTasks = 5e7, kFewest = 20, kMost = 300;
  const double tasks = static_cast<double>(groups_.size() * tasks_.size() + 10 * group_of_rank_.size());
  DrawnSteps drawn;
  drawn.draws = static_cast<int>(std::clamp(kMostTasks / tasks, kFewest, kMost));
  std::vector<double> times;
  for (int draw = 0; draw < drawn.draws; ++draw) times.push_back(mean + end_of(behind + draw) - seen);
  std::ranges::sort(times);
  double squares = 0;
  for (const double time : times) drawn.mean += time / drawn.draws;
  for (const double time : times) squares += (time - drawn.mean) * (time - drawn.mean);
  constexpr double kNormal = 1.96;  // 97.5 % quantile
  drawn.half_width = kNormal * std::sqrt(squares / (drawn.draws - 1) / drawn.draws);
  drawn.low = times[times.size() / 20];
  drawn.high = times[times.size() - 1 - times.size() / 20];
  return drawn;
}

const std::vector<double>& SlowestReplicas::step_factors(std::uint32_t step) const {
  if (step >= factors_.size()) factors_.resize(step + std::size_t{1});
  std::vector<double>& factors = factors_[step];
  if (!factors.empty()) return factors;
  factors = slowest_members(step);
  if (std::all_of(keeps_.begin(), keeps_.end(), [](bool keeps) { return keeps; })) return factors;
  const std::vector<int> order = ranking(step, factors);
  const int shared = order[draws_ == Draws::one_replica ? 0 : order.size() / 2];
  const std::vector<double> own = factors;
  for (std::size_t group = 0; group < factors.size(); ++group)
    if (!keeps_[position(replica_of_group_[group])])
      factors[group] = own[position(groups_[position(shared)][position(stage_of_group_[group])])];
  return factors;
}

/// Returns the largest factor of each lockstep group.
std::vector<double> SlowestReplicas::slowest_members(std::uint32_t step) const {
  std::vector<double> factors(stage_of_group_.size(), 0);
  for (std::size_t rank = 0; rank < group_of_rank_.size(); ++rank) {
    double& most = factors[position(group_of_rank_[rank])];
    most = std::max(most, slowdown(stragglers_, static_cast<Actor>(rank), step));
  }
  return factors;
}

/// Returns the time at which each replica has done its tasks of a step. It begins when the gradients of the step before
/// are summed, with the optimizer.
std::vector<double> SlowestReplicas::replica_ends(std::uint32_t step, const std::vector<double>& factors) const {
  const std::vector<double> before = step > 0 ? slowest_members(step - 1) : std::vector<double>{};
  std::vector<double> ends(groups_.size()), task_ends(tasks_.size()), clocks(update_.size());
  for (std::size_t replica = 0; replica < groups_.size(); ++replica) {
    const auto of_stage = [&](const std::vector<double>& all, std::size_t stage) {
      return all[position(groups_[replica][stage])];
    };
    for (std::size_t stage = 0; stage < clocks.size(); ++stage)
      clocks[stage] = before.empty() ? 0 : update_[stage] * of_stage(before, stage);
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const Task& task = tasks_[i];
      double& clock = clocks[position(task.stage)];
      if (task.after >= 0) clock = std::max(clock, task_ends[position(task.after)]);
      clock += task.seconds * of_stage(factors, position(task.stage));
      task_ends[i] = clock;
    }
    ends[replica] = *std::max_element(clocks.begin(), clocks.end());
  }
  return ends;
}

/// Returns the replicas, the slowest of the step first.
std::vector<int> SlowestReplicas::ranking(std::uint32_t step, const std::vector<double>& factors) const {
  const std::vector<double> ends = replica_ends(step, factors);
  std::vector<int> order(groups_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&ends](int replica) { return ends[position(replica)]; });
  return order;
}

}  // namespace trainyard
