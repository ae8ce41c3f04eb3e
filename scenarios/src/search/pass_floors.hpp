#pragma once
#include <array>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {

/// The least that passes of each layer take on any rank, in seconds.
///
/// A pass is what the simulation runs (`PassTable`): kernels one after the other, each as the fastest type of node
/// prices it, and exchanges in the order of their lane, which begin after the kernels before them and which kernels
/// wait for. An exchange takes at least what the library's model says on an idle machine: a flow of it is never
/// faster than the model's rate, and sharing, interference and waiting for other ranks only add. Exchanges that are
/// no model's, or that groups do in different ways, count as nothing, and where a forward and a backward pass alternate
/// none does: the other pass may go on beside it. So no rank ends a pass earlier than this after
/// it could begin it, and passes of one rank add up, since whatever follows a pass waits for its kernels and for the
/// exchanges that it leaves.
class PassFloors {
 public:
  /// `plan`: with its lanes.
  PassFloors(const Scenario&, const TrainingPlan& plan);

  /// first: of the micro-batches, or of gradients that nothing is added to.
  double at(Pass pass, int layer, bool first) const {
    return times_[static_cast<std::size_t>(layer)][2 * static_cast<std::size_t>(pass) + (first ? 0 : 1)];
  }
  /// What the host needs to launch the pass' kernels one after the other, s, where it runs ahead of the GPU; else 0.
  double host(Pass pass, int layer) const {
    return hosts_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(pass)];
  }
  /// A forward and a backward pass of all layers, without adding up gradients.
  double micro_batch() const;

 private:
  std::vector<std::array<double, 2 * kPasses>> times_;
  std::vector<std::array<double, kPasses>> hosts_;
};

}  // namespace trainyard
