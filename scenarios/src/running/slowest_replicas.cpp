#include "scenarios/src/running/slowest_replicas.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/index.hpp"
#include "sim/stable_sort.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {
namespace {

/// Disjoint sets of ranks, which can be joined (union-find).
class JoinedRanks {
 public:
  explicit JoinedRanks(int ranks) : parent_(consecutive_numbers(0, ranks)) {}
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

/// Returns true if all members of a lane's groups meet in each pass through a layer.
bool meets_in_layers(const TrainingPlan& plan, Lane lane) {
  switch (lane) {
    case Lane::tensor:
    case Lane::context:
    case Lane::ulysses:
    case Lane::expert:
    case Lane::expert_return:
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

Work host_work(std::uint16_t kernel) {
  Work work;
  work.kernel = kernel;
  return work;
}

/// Times of the kernels of a pass through a chunk, s: the host may take longer to launch them than they run.
struct PassTime {
  double on_gpu = 0, host = 0;
  double seconds() const { return std::max(on_gpu, host); }
};

PassTime time_of_pass(const Machine& machine, Actor rank, const Layer& layer, PipelineTask::Pass pass) {
  PassTime time;
  const auto add = [&](const KernelCall& call) {
    const Cost cost = machine.price(call.work, rank);
    time.on_gpu += cost.duration.value;
    time.host += cost.host.value;
  };
  if (pass == PipelineTask::Pass::forward)
    for (const KernelCall& call : layer.forward) add(call);
  else
    for (const BackwardKernel& call : layer.backward)
      if (pass == PipelineTask::Pass::backward || call.for_weights == (pass == PipelineTask::Pass::backward_weights))
        add(call);
  return time;
}

}  // namespace

SlowestReplicas::SlowestReplicas(const TrainingPlan& plan, const StragglerMachine& machine, int steps)
    : plan_(plan), stragglers_(machine.stragglers()), machine_(machine.base()), steps_(steps) {
  if (plan.updates || plan.through_center)
    refusal_ = "replicas do not sum their gradients in each step";
  else if (!plan.load_networks.empty())
    refusal_ = "expert ranks have unlike loads";
  else if (!plan.mesh.widths.empty())
    refusal_ = "stages have different numbers of ranks";
  else if (plan.zero == ZeroStage::gradients && !plan.sync_last && plan.mesh.pipeline > 1)
    refusal_ = "replicas exchange gradients in each micro-batch of a pipeline";
  if (refusal_.empty()) find_groups();
  if (refusal_.empty()) require_alike();
  if (refusal_.empty()) order_tasks();
  if (refusal_.empty()) choose(DrawSharing::some_replicas);
}

/// Finds the lockstep groups, and the replicas: the lockstep groups whose stages exchange messages.
void SlowestReplicas::find_groups() {
  JoinedRanks near(plan_.ranks());
  for (int lane = 0; lane < kLanes; ++lane)
    if (meets_in_layers(plan_, static_cast<Lane>(lane)))
      for (const LaneGroup& group : plan_.lanes[position(lane)].groups)
        for (const int member : group.members) near.join(group.members.front(), member);
  JoinedRanks replicas = near;
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    Coordinates first = plan_.mesh.coordinates(rank);
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
    const int stage = plan_.mesh.coordinates(rank).pipeline;
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
  largest_ = *std::ranges::max_element(sizes);
  if (largest_ != *std::ranges::min_element(sizes)) refusal_ = "groups of ranks differ in size";
}

void SlowestReplicas::require_alike() {
  std::vector<Actor> first(position(plan_.mesh.pipeline), -1);
  for (Actor rank = 0; rank < plan_.ranks(); ++rank) {
    Actor& stage_rank = first[position(stage_of_group_[position(group_of_rank_[position(rank)])])];
    if (stage_rank < 0) stage_rank = rank;
    if (machine_.equivalence_class(rank) != machine_.equivalence_class(stage_rank))
      refusal_ = "ranks of a stage have unlike GPUs";
  }
}

void SlowestReplicas::order_tasks() {
  const auto stages = position(plan_.mesh.pipeline);
  const auto micro_batches = position(plan_.micro_batches);
  std::vector<int> forward(position(plan_.virtual_stages()) * micro_batches, -1), backward = forward;
  const auto entry_at = [micro_batches](std::vector<int>& tasks, int v, int micro_batch) -> int& {
    return tasks[position(v) * micro_batches + position(micro_batch)];
  };
  const auto host_seconds = [this](std::uint16_t kernel, Actor rank) {
    return kernel == 0 ? 0 : machine_.price(host_work(kernel), rank).duration.value;
  };
  std::vector<std::vector<std::array<PassTime, kPasses>>> times(stages);
  std::vector<Actor> stage_ranks;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const StagePlan& plan = plan_.stages[stage];
    const Actor rank = plan_.mesh.rank({0, 0, 0, static_cast<int>(stage)});
    stage_ranks.push_back(rank);
    update_.push_back(machine_.price(plan.optimizer, rank).duration.value);
    on_gpu_.push_back(update_.back());
    tasks_of_stage_.push_back(0);
    overhead_.push_back(host_seconds(plan_.overhead_kernel, rank));
    for (const std::vector<int>& chunk : plan.chunks) {
      std::array<PassTime, kPasses>& passes = times[stage].emplace_back();
      for (int pass = 0; pass < kPasses; ++pass)
        for (const int layer : chunk) {
          const PassTime time = time_of_pass(machine_, rank, plan_.network->layers[position(layer)],
                                             static_cast<PipelineTask::Pass>(pass));
          passes[position(pass)].on_gpu += time.on_gpu;
          passes[position(pass)].host += time.host;
        }
    }
  }
  std::vector<std::size_t> next(stages, 0);
  const auto add_next = [&](int stage) {
    const std::vector<PipelineTask>& tasks = plan_.stages[position(stage)].tasks;
    if (next[position(stage)] == tasks.size()) return false;
    const PipelineTask& task = tasks[next[position(stage)]];
    const int v = plan_.schedule ? plan_.schedule->virtual_stage(stage, task.chunk, plan_.pipeline) : 0;
    const bool is_forward = task.pass == PipelineTask::Pass::forward;
    int after = -1;
    if (is_forward && !plan_.begins_network(v)) {
      after = entry_at(forward, v - 1, task.micro_batch);
      if (after < 0) return false;
    } else if (!is_forward && task.pass != PipelineTask::Pass::backward_weights && !plan_.ends_network(v)) {
      after = entry_at(backward, v + 1, task.micro_batch);
      if (after < 0) return false;
    }
    const PassTime& time = times[position(stage)][position(task.chunk)][position(static_cast<int>(task.pass))];
    const double host =
        host_seconds(after < 0 ? plan_.micro_batch_kernel : plan_.kernel_after_message, stage_ranks[position(stage)]);
    on_gpu_[position(stage)] += time.on_gpu;
    tasks_of_stage_[position(stage)] += host + time.seconds();
    const int index = static_cast<int>(tasks_.size());
    tasks_.push_back({stage, after, host + time.seconds()});
    if (task.pass != PipelineTask::Pass::backward_weights)
      entry_at(is_forward ? forward : backward, v, task.micro_batch) = index;
    ++next[position(stage)];
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < plan_.mesh.pipeline; ++stage)
      while (add_next(stage)) moved = true;
  }
}

void SlowestReplicas::choose(DrawSharing draws) {
  draws_ = draws;
  factors_.assign(position(steps_), {});
  const std::size_t replicas = groups_.size();
  keeps_.assign(replicas, draws == DrawSharing::some_replicas || replicas == 1);
  if (draws != DrawSharing::some_replicas || 2 * kSlowest * position(steps_) >= replicas) return;
  keeps_.assign(replicas, false);
  for (int step = 0; step < steps_; ++step) {
    const auto number = static_cast<std::uint32_t>(step);
    const std::vector<int> order = ranking(replica_ends(number, slowest_members(number)));
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

bool SlowestReplicas::is_estimate() const {
  int lanes = 0;  // number of kinds of groups that meet in layers
  for (int lane = 0; lane < kLanes; ++lane) {
    const LaneGroups& groups = plan_.lanes[position(lane)];
    if (!meets_in_layers(plan_, static_cast<Lane>(lane)) || !groups.is_used()) continue;
    ++lanes;
    for (const LaneGroup& group : groups.groups)
      if (group.members.size() > 1 && group.settings.fidelity == Fidelity::messages) return true;
  }
  return (draws_ == DrawSharing::one_replica && groups_.size() > 1) || lanes > 1 ||
         (plan_.zero == ZeroStage::parameters && plan_.lane(Lane::parameters).is_used());
}

double SlowestReplicas::most_error() const {
  if (!is_estimate()) return kExactError;
  constexpr int most_steps = 8;  // a step takes as long as a draw for every rank
  const int steps = std::clamp(steps_, 1, most_steps), ranks = plan_.ranks();
  double slowest = 0, sum = 0;
  for (int step = 0; step < steps; ++step) {
    double slowest_factor = 0;
    for (Actor rank = 0; rank < ranks; ++rank) {
      const double factor = slowdown(stragglers_, rank, static_cast<std::uint32_t>(step));
      slowest_factor = std::max(slowest_factor, factor);
      sum += factor / ranks;
    }
    slowest += slowest_factor;
  }
  return std::max(kLeastEstimateError, kShareOfExcess * (slowest / sum - 1));
}

std::string SlowestReplicas::in_words() const {
  std::vector<std::string> words;
  if (largest_ > 1)
    words.push_back(fmt::format("each rank is as slow as the slowest of the {} that meet in every layer", largest_));
  const std::size_t replicas = groups_.size();
  const auto keeping = static_cast<std::size_t>(std::ranges::count(keeps_, true));
  if (keeping == 0)
    words.emplace_back("all replicas are as slow as the slowest of the step");
  else if (keeping < replicas)
    words.push_back(
        fmt::format("{} of {} replicas, the slowest {} of each step, have their own draws, the others those of the "
                    "replica in the middle",
                    keeping, replicas, kSlowest));
  if (is_estimate()) words.push_back(fmt::format("the step may be {:.0f} % off", std::ceil(most_error() * 100)));
  return fmt::format("{}", fmt::join(words, "; "));
}

std::uint64_t SlowestReplicas::equivalence_class(Actor rank) const {
  const auto replica = position(replica_of_group_[position(group_of_rank_[position(rank)])]);
  return keeps_[replica] ? replica + 1 : 0;
}

SlowestReplicas::RankTime SlowestReplicas::time_of_rank(Actor rank, const RankTime& class_time, int first,
                                                        int behind) const {
  // Interference makes kernels longer by some percent; if they are longer by more, the host launches them too late.
  constexpr double kBoundByHost = 1.1;
  const auto group = position(group_of_rank_[position(rank)]);
  const auto stage = position(stage_of_group_[group]), replica = position(replica_of_group_[group]);
  RankTime time;
  for (int step = first; step < behind; ++step) {
    const auto number = static_cast<std::uint32_t>(step);
    const StepFactors& factors = step_factors(number);
    const double factor = slowdown(stragglers_, rank, number), alone = class_time.kernels / factors.used[group];
    const bool waits = factor < factors.slowest[group] * (1 - 1e-9);
    const bool late = alone > kBoundByHost * on_gpu_[stage];
    time.kernels += factor * (waits && late ? on_gpu_[stage] : alone);
    const double longer = keeps_[replica] ? 0
                                          : factors.ends[replica] - factors.ends[position(factors.model)] -
                                                tasks_of_stage_[stage] * (factors.slowest[group] - factors.used[group]);
    time.bubble += std::max(0.0, class_time.bubble + longer);
  }
  time.kernels /= behind - first;
  time.bubble /= behind - first;
  time.exposed =
      std::max(0.0, class_time.exposed + class_time.kernels - time.kernels + class_time.bubble - time.bubble);
  return time;
}

DrawnSteps SlowestReplicas::further_draws(double mean, int first, int behind) const {
  // A step ends when the slowest rank has updated its parameters. The recurrence begins with the ranks' own updates.
  const auto last_update = [this](int step) {
    const std::vector<double> factors = slowest_members(static_cast<std::uint32_t>(step));
    double longest = 0;
    for (std::size_t group = 0; group < factors.size(); ++group)
      longest = std::max(longest, update_[position(stage_of_group_[group])] * factors[group]);
    return longest;
  };
  const auto time_of = [&](int step) {
    const auto number = static_cast<std::uint32_t>(step);
    const std::vector<double> ends = replica_ends(number, slowest_members(number));
    return *std::ranges::max_element(ends) + last_update(step) - (step > 0 ? last_update(step - 1) : 0);
  };
  double seen = 0;
  for (int step = first; step < behind; ++step) seen += time_of(step) / (behind - first);
  // kMostTasks take some tenths of a second. The mean of kMost draws is known to a few thousandths.
  constexpr double kMostTasks = 5e7, kFewest = 20, kMost = 300;
  const double tasks = static_cast<double>(groups_.size() * tasks_.size() + 10 * group_of_rank_.size());
  DrawnSteps drawn;
  drawn.draws = static_cast<int>(std::clamp(kMostTasks / tasks, kFewest, kMost));
  std::vector<double> times;
  for (int draw = 0; draw < drawn.draws; ++draw) times.push_back(mean + time_of(behind + draw) - seen);
  std::ranges::sort(times);
  double squares = 0;
  for (const double time : times) drawn.mean.value += time / drawn.draws;
  for (const double time : times) squares += (time - drawn.mean.value) * (time - drawn.mean.value);
  // The recurrence is off by some part of each simulated step, at most by as much as draws differ: both errors count.
  constexpr double kNormal = 1.96;  // 97.5 % quantile
  drawn.half_width.value =
      kNormal * std::sqrt(squares / (drawn.draws - 1) * (1.0 / drawn.draws + 1.0 / (behind - first)));
  drawn.low.value = times[times.size() / 20];
  drawn.high.value = times[times.size() - 1 - times.size() / 20];
  return drawn;
}

const SlowestReplicas::StepFactors& SlowestReplicas::step_factors(std::uint32_t step) const {
  if (step >= factors_.size()) factors_.resize(step + std::size_t{1});
  StepFactors& factors = factors_[step];
  if (!factors.slowest.empty()) return factors;
  factors.slowest = factors.used = slowest_members(step);
  if (std::ranges::all_of(keeps_, [](bool keeps) { return keeps; })) return factors;
  factors.ends = replica_ends(step, factors.slowest);
  const std::vector<int> order = ranking(factors.ends);
  factors.model = order[draws_ == DrawSharing::one_replica ? 0 : order.size() / 2];
  for (std::size_t group = 0; group < factors.slowest.size(); ++group)
    if (!keeps_[position(replica_of_group_[group])])
      factors.used[group] =
          factors.slowest[position(groups_[position(factors.model)][position(stage_of_group_[group])])];
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
    const auto stage_factor = [&](const std::vector<double>& all, std::size_t stage) {
      return all[position(groups_[replica][stage])];
    };
    for (std::size_t stage = 0; stage < clocks.size(); ++stage)
      clocks[stage] = overhead_[stage] * stage_factor(factors, stage) +
                      (before.empty() ? 0 : update_[stage] * stage_factor(before, stage));
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const Task& task = tasks_[i];
      double& clock = clocks[position(task.stage)];
      if (task.after >= 0) clock = std::max(clock, task_ends[position(task.after)]);
      clock += task.seconds * stage_factor(factors, position(task.stage));
      task_ends[i] = clock;
    }
    ends[replica] = *std::ranges::max_element(clocks);
  }
  return ends;
}

/// Returns the replicas, the slowest of the step first.
std::vector<int> SlowestReplicas::ranking(const std::vector<double>& ends) {
  std::vector<int> order = consecutive_numbers(0, ends.size());
  sort_stably(order, [&ends](int a, int b) { return ends[position(a)] > ends[position(b)]; });
  return order;
}

}  // namespace trainyard
