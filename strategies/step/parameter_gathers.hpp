#pragma once
#include "strategies/step/host_offload.hpp"
#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

/// Parameters of one rank: the optimizer updates its share, and what ZeRO shards is gathered before it is computed with
/// (stages 1 and 2: after the update or beside the next forward pass; stage 3: layer by layer).
class ParameterGathers {
 public:
  ParameterGathers(StepContext&, LaneCollectives&, HostOffload&);

  /// Stages 1 and 2: parameters are gathered while the next step's forward pass goes on.
  bool gathers_ahead() const { return step_.shards() && !step_.shards_parameters() && step_.plan.overlap_parameters; }
  void begin_step();
  /// Every bucket, the first layers' first.
  Ops gather_all();
  /// Stage 3: parameters of the layers to come are gathered while this one runs.
  Ops prefetch();
  /// The next kernel waits for the layer's parameters.
  void wait_for(int layer);
  bool waits_for(int layer) const { return !ready_[static_cast<std::size_t>(layer)].empty(); }
  /// Stage 3, after a pass of the layer: parameters that nobody computes with any more are dropped. `last_use`: nothing
  /// of the step comes after this pass.
  Ops end_visit(int layer, bool last_use);
  /// The optimizer's update, and what has to be gathered before the next step.
  Ops update();
  /// The optimizer on the GPU, with gradients of that set of buckets (see UpdatePolicy::gradient_sets).
  Ops run_optimizer(int set = 0);

 private:
  /// A pass of a layer (stage 3). Does it need the parameters, and gathers them?
  struct Visit {
    int layer = 0;
    bool gathers = false;
  };
  StepContext& step_;
  LaneCollectives& collectives_;
  HostOffload& offload_;
  std::vector<std::vector<Dep>> ready_;  // by layer: its parameters, until somebody has waited for them
  std::vector<Visit> visits_;            // of a step
  std::size_t visit_ = 0, next_gather_ = 0;
  std::vector<int> users_;  // by layer: visits that have asked for its parameters and are not over

  void plan_visits();
  std::vector<int> weights_of(int layer) const;
  Ops gather(std::size_t bucket, Dep start = {});
  Ops gather_layer(int layer);
  Ops drop_layer(int layer);
  Ops gather_updated();
};

}  // namespace trainyard
