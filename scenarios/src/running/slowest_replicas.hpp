#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "strategies/plan/training_plan.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace trainyard {

/// Choice of the ranks of a run that have drawn slow-downs of their own. The other ranks take draws of these.
enum class DrawSharing : std::uint8_t {
  automatic,      ///< `each_rank` if its simulation is cheap, else `sharing`
  each_rank,      ///< each rank has its own draws
  sharing,        ///< `some_replicas` or `one_replica`, whichever folds first; `each_rank` if neither folds
  some_replicas,  ///< the slowest replicas of each step have their own; all others take those of the middle replica
  one_replica,    ///< all replicas take the draws of the slowest replica of the step
};

/// Shared factors for a plan whose ranks have draws for a whole step. They are shared at two levels:
///
/// - Ranks that meet between all pieces of their work (tensor, context and expert ranks of a replica; with ZeRO 3 those
///   that shard parameters) form a lockstep group. Each piece lasts as long as on the slowest member, and that is the
///   same member each time, so all members take its factor. No rank gets faster: the step is at least as long as before,
///   and longer only by work that the others overlap with nobody.
/// - Replicas meet at the end of the step, so that the slowest ones decide when it ends. A recurrence over the
///   pipeline's tasks ranks them in each step.
///
/// `check_folding` compares such a run with the run in which each rank has its own draws.
class SlowestReplicas : public SharedFactors {
 public:
  /// Number of replicas that keep their draws in a step. With three, 26 runs of GPT-3 and Llama 3 on 64 to 4,096 GPUs
  /// differ by at most 0.001 % from the runs in which all replicas keep them; with one, by 0.073 %.
  static constexpr std::size_t kSlowest = 3;

  /// `steps`: the most steps of the run. The plan and the machine must outlive this object.
  SlowestReplicas(const TrainingPlan&, const StragglerMachine&, int steps);

  /// The condition that the plan violates; "": factors can be shared.
  const std::string& refusal() const { return refusal_; }
  /// Chooses what replicas take: `some_replicas` or `one_replica`.
  void choose(DrawSharing);
  DrawSharing draws() const { return draws_; }
  /// Returns true if all members of a group of replicas meet in one operation. If they pass messages around, replicas
  /// with draws of their own make all others unlike.
  bool replicas_meet_at_once() const;
  /// Returns true if the step with shared factors is an estimate only. It is one if all replicas take the factors of one
  /// replica, and if ranks that do not meet in every layer count as if they did: members of several kinds of groups
  /// (tensor and expert ranks, for example), ranks that gather parameters ahead of use (ZeRO 3), or members that pass
  /// messages around instead of meeting in one operation.
  bool is_estimate() const;
  /// Returns the largest relative error of the step that is expected from sharing: `kExactError`, and for an estimate
  /// 0.6 times the share by which the slowest rank of a step is slower than the mean rank, but at least `kLeastEstimateError`. No
  /// proof: the tests compare random scenarios with runs in which each rank has its own draws.
  double most_error() const;
  static constexpr double kExactError = 2e-3, kLeastEstimateError = 5e-2, kShareOfExcess = 0.6;
  /// Describes in one sentence which ranks share which factors.
  std::string in_words() const;

  double factor(Actor rank, std::uint32_t step) const override {
    return step_factors(step).used[static_cast<std::size_t>(group_of_rank_[static_cast<std::size_t>(rank)])];
  }
  std::uint64_t equivalence_class(Actor rank) const override;
  /// Parts of a rank's step, s.
  struct RankTime {
    double kernels = 0, bubble = 0, exposed = 0;
  };
  /// Returns the mean parts of a step with the rank's own draws, over the steps `first` to `behind` − 1. `class_time`:
  /// the parts with the shared factors. A rank that computes faster than its lockstep group waits for it. Meanwhile its
  /// host launches kernels ahead, so that they take no longer than on the GPU alone. A replica that is faster than the
  /// slowest one keeps its own bubbles, and waits for the others when it exchanges gradients.
  RankTime time_of_rank(Actor rank, const RankTime& class_time, int first, int behind) const;
  /// Estimates the steps of further draws from the mean of the simulated steps `first` to `behind` − 1, s: the
  /// recurrence says how much longer or shorter each of them is.
  DrawnSteps further_draws(double mean, int first, int behind) const;

 private:
  /// A task of the schedule, and the time that it takes without stragglers.
  struct Task {
    int stage = 0;
    int after = -1;  ///< index of the task of a neighbour that it waits for; −1: none
    double seconds = 0;
  };
  const TrainingPlan& plan_;
  const std::vector<Straggler>& stragglers_;
  const Machine& machine_;  ///< without stragglers
  std::string refusal_;
  DrawSharing draws_ = DrawSharing::some_replicas;
  int steps_;
  std::vector<int> group_of_rank_;  ///< lockstep group of each rank
  std::vector<int> stage_of_group_, replica_of_group_;
  std::vector<std::vector<int>> groups_;  ///< lockstep groups by replica and stage
  std::size_t largest_ = 1;               ///< most ranks in a lockstep group
  std::vector<Task> tasks_;               ///< ordered: each task comes after those that it waits for
  /// By stage, s: the optimizer; all kernels of a step on the GPU alone; the host work at the beginning of a step; all
  /// tasks.
  std::vector<double> update_, on_gpu_, overhead_, tasks_of_stage_;
  std::vector<bool> keeps_;  ///< indexed by replica: it keeps its draws
  /// Factors of the lockstep groups in a step.
  struct StepFactors {
    std::vector<double> slowest, used;  ///< empty: not computed yet
    std::vector<double> ends;           ///< indexed by replica: end of its tasks in the recurrence, s
    int model = 0;                      ///< the replica whose factors the replicas without draws of their own take
  };
  mutable std::vector<StepFactors> factors_;  ///< indexed by step

  void find_groups();
  void require_alike();
  void order_tasks();
  const StepFactors& step_factors(std::uint32_t step) const;
  std::vector<double> slowest_members(std::uint32_t step) const;
  std::vector<double> replica_ends(std::uint32_t step, const std::vector<double>& factors) const;
  static std::vector<int> ranking(const std::vector<double>& ends);
};

}  // namespace trainyard
