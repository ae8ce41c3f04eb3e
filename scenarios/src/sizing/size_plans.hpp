#pragma once
#include <cstdint>
#include <vector>

#include "scenarios/src/search/plan_search.hpp"
#include "scenarios/src/sizing/size_training.hpp"

namespace trainyard {

/// The best plans of the sizes that were searched so far.
class PlansOfSizes {
 public:
  /// Keeps the plan of a size, unless the size has none or the plan is no product of degrees.
  void keep(const SizeRow&);
  /// Returns the plans that may suit a size: those of as many nodes, that of the fastest smaller size, and that of the size
  /// that takes the fewest device-hours.
  std::vector<PlanPoint> for_size(const ClusterName&) const;
  /// Returns true if another size of the same nodes has a plan that may be better here: it takes fewer device-hours, or it is
  /// smaller and takes less time.
  bool has_better(const SizeRow&) const;

 private:
  struct Size {
    ClusterName name;
    int gpus = 0;
    double time = 0;
    PlanPoint point;
    double device_time() const { return gpus * time; }
  };
  std::vector<Size> sizes_;
};

/// Tries these plans of other sizes, with other data-parallel degrees and numbers of stages. The row takes the fastest if it
/// leaves the headroom of the row and is faster than its plan. Throws Interruption.
void take_faster_plan(const SizeQuestion&, const PlanQuestion&, const std::vector<PlanPoint>&, std::int64_t own_batch,
                      SizeRow&);

/// Sets the plan of a row and computes its training. Returns the outcome of a step. `own_batch`: the scenario's batch.
PlanOutcome take_plan(const SizeQuestion&, const PlanQuestion&, const PlanSpace&, const PlanPoint&,
                      std::int64_t own_batch, SizeRow&);

}  // namespace trainyard
