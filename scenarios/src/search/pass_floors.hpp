#pragma once
#include <array>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "strategies/step/pass_table.hpp"

namespace trainyard {

/// Lower bounds of the time of each layer's passes on any rank, in s.
///
/// A pass runs as in the simulation (`PassTable`): kernels one after the other, each with the price of the fastest node
/// type, and exchanges in the order of their lane. An exchange begins after the kernels before it, and later kernels
/// wait for it. It takes at least the time of the library's model on an idle machine: its flow is never faster than the
/// model's rate, and sharing, interference and waiting for other ranks only add time. Exchanges that are not modelled,
/// or that groups run in different ways, count as 0. If forward and backward passes alternate, all exchanges count as
/// 0, because the other pass may overlap with them. So on every rank, a pass ends at least this time after it could
/// begin. The bounds of one rank's passes add up, because each pass waits for the kernels and exchanges of the pass
/// before it.
class PassFloors {
 public:
  /// `plan` must have its lanes.
  PassFloors(const Scenario&, const TrainingPlan& plan);

  /// Returns a lower bound of a pass of a layer, s. `first` true: no earlier gradients exist to which it adds its own.
  double seconds(Pass pass, int layer, bool first) const {
    return times_[static_cast<std::size_t>(layer)][2 * static_cast<std::size_t>(pass) + (first ? 0 : 1)];
  }
  /// Returns the time in which the host launches the kernels of the pass, s. 0: the host does not run ahead of the GPU.
  double host(Pass pass, int layer) const {
    return hosts_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(pass)];
  }
  /// Returns a lower bound of a forward and a backward pass of all layers in the first micro-batch, s.
  double micro_batch() const;

 private:
  std::vector<std::array<double, 2 * kPasses>> times_;
  std::vector<std::array<double, kPasses>> hosts_;
};

}  // namespace trainyard
