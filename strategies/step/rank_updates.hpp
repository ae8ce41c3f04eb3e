#pragma once
#include "strategies/plan/update_policy.hpp"
#include "strategies/step/gradient_exchange.hpp"
#include "strategies/step/parameter_gathers.hpp"

namespace trainyard {

/// The parts of a rank's training step that its updates use.
struct StepParts {
  StepContext& step;
  LaneCollectives& collectives;
  GradientExchange& gradients;
  ParameterGathers& parameters;
};

/// The operations of one rank at the points of a step at which replicas exchange data. By default gradients have been
/// summed by the end of the step, and the optimizer runs.
class RankUpdates {
 public:
  explicit RankUpdates(const StepParts& parts) : parts_(parts) {}
  RankUpdates(const RankUpdates&) = delete;
  RankUpdates& operator=(const RankUpdates&) = delete;
  virtual ~RankUpdates() = default;

  virtual Ops before_step(int) { return {}; }
  /// The set of buckets that takes the gradients of a step (see UpdatePolicy::gradient_sets).
  virtual int gradient_set(int) const { return 0; }
  virtual Ops after_backward(int step);
  virtual Ops after_training() { return {}; }

 protected:
  const StepParts parts_;
};

}  // namespace trainyard
