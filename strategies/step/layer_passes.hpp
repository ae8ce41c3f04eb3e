#pragma once
#include <array>
#include <optional>

#include "strategies/step/gradient_exchange.hpp"
#include "strategies/step/host_offload.hpp"
#include "strategies/step/parameter_gathers.hpp"
#include "strategies/step/pass_series.hpp"

namespace trainyard {

/// Forward and backward passes of layers: kernels, and the exchanges of tensor, context and expert parallelism between
/// or beside them.
class LayerPasses {
 public:
  /// `series` null: layers yield their operations one by one.
  LayerPasses(StepContext&, LaneCollectives&, GradientExchange&, ParameterGathers&, HostOffload&, const PassSeries*);

  /// Runs a task's pass through the layers of its model chunk. sends: a message to another stage follows.
  Ops chunk(const PipelineTask&, bool sends);

  /// Alternates between two independent passes, with the operations before and after them. When one of them has begun
  /// an exchange that its next kernel waits for, the other one continues.
  Ops in_turn(Ops one, Ops other);

 private:
  /// The micro-batches of a model chunk that make gradients first and last.
  struct Ends {
    int first = -1, last = -1;
  };
  StepContext& step_;
  LaneCollectives& collectives_;
  GradientExchange& gradients_;
  ParameterGathers& parameters_;
  HostActivations activations_;
  const PassSeries* const series_;
  std::vector<Ends> ends_;                  // indexed by model chunk
  std::array<bool, kLanes> is_one_join_{};  // indexed by lane: a collective is one operation, which all members join
  std::vector<Dep> exchanges_;              // indexed by place: ends of the exchanges of the current pass
  /// State of the pass that waits while the other one runs.
  struct WaitingPass {
    std::vector<Dep> exchanges;
    PendingWaits waits;
  };
  std::optional<WaitingPass> waiting_pass_;
  std::size_t next_buffer_ = 0;  // index of the next buffer for an exchange

  /// Returns null if the layers of the chunk yield their operations one by one.
  const PassSeries::ChunkSeries* series_of(const PipelineTask&, bool sends) const;
  Ops series(const PassSeries::ChunkSeries&);
  Ops pass(int layer, const PipelineTask&);
  Ops layers(const PipelineTask&, bool sends);
  /// Finds the maxima of this pass and the scales of the next one with all ranks that share scales of fp8 tensors.
  Ops amax_reduction(const PipelineTask&);
  Ops exchange(const PassItem&, std::uint16_t buffer);
  const Op& modelled_exchange(const PassItem&);
  std::uint16_t take_buffers(int exchanges);
};

}  // namespace trainyard
