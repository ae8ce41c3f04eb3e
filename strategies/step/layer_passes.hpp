#pragma once
#include <optional>

#include "strategies/step/gradient_exchange.hpp"
#include "strategies/step/host_activations.hpp"
#include "strategies/step/parameter_gathers.hpp"
#include "strategies/step/pass_series.hpp"

namespace trainyard {

/// Forward and backward passes of layers: kernels, and the exchanges of tensor, context and expert parallelism that go on
/// between or beside them.
class LayerPasses {
 public:
  /// Null series: the layers' operations one by one.
  LayerPasses(StepContext&, LaneCollectives&, GradientExchange&, ParameterGathers&, HostOffload&, const PassSeries*);

  /// A task's pass through the layers of its model chunk. sends: a message to another stage follows.
  Ops chunk(const PipelineTask&, bool sends);

  /// Two passes that need nothing of each other, with what comes before and after them: once one of them has begun an
  /// exchange that its next kernel waits for, the other goes on.
  Ops in_turn(Ops one, Ops other);

 private:
  /// Of a model chunk: the micro-batches that make gradients first and last.
  struct Ends {
    int first = -1, last = -1;
  };
  StepContext& step_;
  LaneCollectives& collectives_;
  GradientExchange& gradients_;
  ParameterGathers& parameters_;
  HostActivations activations_;
  const PassSeries* const series_;
  std::vector<Ends> ends_;      // by model chunk
  std::vector<Dep> exchanges_;  // by place: ends of the exchanges of the pass that is under way
  /// Of the pass that stands back while the other one goes on.
  struct StandingBack {
    std::vector<Dep> exchanges;
    PendingWaits waits;
  };
  std::optional<StandingBack> standing_back_;
  std::size_t next_buffer_ = 0;  // of exchanges

  /// Null: its layers are told one by one.
  const PassSeries::OfChunk* series_of(const PipelineTask&, bool sends) const;
  Ops series(const PassSeries::OfChunk&);
  Ops pass(Pass, int layer, const PipelineTask&);
  Ops layers(const PipelineTask&, bool sends);
  /// Ranks that scale tensors in fp8 alike find their maxima of this pass, and the scales of the next.
  Ops agree_on_maxima(const PipelineTask&);
  /// Is a collective on that lane one operation, which all members join?
  bool is_one_join(Lane) const;
  Ops exchange(const PassItem&, std::uint16_t own);
  const Op& modelled_exchange(const PassItem&);
  std::uint16_t take_buffers(int exchanges);
};

}  // namespace trainyard
