#pragma once
#include <memory>
#include <string>

#include "scenarios/src/running/step_machine.hpp"
#include "sim/folding/fold.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

/// Choice whether ranks fold as if the last pod were full. A last pod that is not full makes the ranks of a ring unlike:
/// each is at another distance from it.
enum class LastPod : std::uint8_t {
  automatic,  ///< `as_full` if the exact run would take more than ten seconds, else `as_it_is`
  as_it_is,   ///< never
  as_full,    ///< always, if the cluster and the plan allow it
};

/// A fold of a cluster whose last pod is not full. The classes, links and peers are those of the same cluster with a full
/// last pod, and each class has as many members as the cluster has ranks. The programs are those of the ranks
/// themselves, so that the numbers and the sizes of all messages are exact. A message meets a boundary of pods as often as
/// in a cluster of full pods, once for each `nodes_of_pod` nodes, and not once for the nodes of the last pod.
class FullPods {
 public:
  /// `run`: the mechanism's run of `plan` on `machine`. Stops as soon as there are more than `most_classes`.
  FullPods(const Scenario&, const Plan& plan, StepMachine& machine, const MechanismRun& run, Names&,
           Actor most_classes);

  /// The reason why ranks do not fold so; "": they fold.
  const std::string& refusal() const { return refusal_; }
  std::unique_ptr<Fold> take_fold() { return std::move(fold_); }

  /// Returns the largest relative error of the step: boundaries of pods that the fold leaves out, relative to those that
  /// it counts.
  double most_error() const { return static_cast<double>(all_nodes_) / nodes_ - 1; }
  /// Describes the last pod and the error in one sentence.
  std::string in_words() const;

 private:
  int nodes_, nodes_of_pod_;
  int all_nodes_;  ///< number of nodes with a full last pod
  std::string refusal_;
  std::unique_ptr<Fold> fold_;

  std::string reason_against(const Scenario&, const Plan&, const MechanismRun&) const;
  std::string difference_of_programs(const ProgramSource& all, const ProgramSource& own) const;
};

}  // namespace trainyard
