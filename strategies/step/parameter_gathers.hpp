#pragma once
#include "strategies/step/host_offload.hpp"
#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

/// The parameters of one rank: the optimizer updates its share, and sharded parameters are gathered before they are
/// used (ZeRO stages 1 and 2: after the update or beside the next forward pass; stage 3: layer by layer).
class ParameterGathers {
 public:
  ParameterGathers(StepContext&, LaneCollectives&, HostOffload&);

  /// True at stages 1 and 2 if parameters are gathered during the next step's forward pass.
  bool gathers_ahead() const { return step_.shards() && !step_.shards_parameters() && step_.plan.overlap_parameters; }
  void begin_step();
  /// Gathers every bucket, those of the first layers first.
  Ops gather_all();
  /// Stage 3: gathers the parameters of the next layers while this one runs.
  Ops prefetch();
  /// Makes the next kernel wait for the layer's parameters.
  void wait_for(int layer);
  bool waits_for(int layer) const { return !ready_[layer].empty(); }
  /// Stage 3, after a pass of the layer: drops parameters that are not needed any more. `last_use`: this is the
  /// layer's last pass in the step.
  Ops end_visit(int layer, bool last_use);
  /// Runs the update. Stages 1 and 2: then gathers the updated parameters, unless `gathers_ahead()`.
  Ops update();
  /// Runs the optimizer on the GPU, with gradients of that set of buckets (see UpdatePolicy::gradient_sets).
  Ops run_optimizer(int set = 0);

 private:
  Ops exchange_matrices();

  /// A pass of a layer (stage 3). `gathers`: its parameters are gathered for it.
  struct Visit {
    int layer = 0;
    bool gathers = false;
  };
  StepContext& step_;
  LaneCollectives& collectives_;
  HostOffload& offload_;
  std::vector<std::vector<Dep>> ready_;  // indexed by layer: gathers of its parameters that nothing has waited for yet
  std::vector<Visit> visits_;            // all visits of a step
  std::size_t visit_ = 0, next_gather_ = 0;
  std::vector<int> users_;  // indexed by layer: number of open visits that use its parameters

  void plan_visits();
  std::vector<int> weights_of(int layer) const;
  Ops gather(std::size_t bucket, Dep start = {});
  Ops gather_layer(int layer);
  Ops drop_layer(int layer);
  Ops gather_updated();
};

}  // namespace trainyard
