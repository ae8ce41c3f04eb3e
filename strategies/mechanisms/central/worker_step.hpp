#pragma once
#include "strategies/mechanisms/central/central_step.hpp"

namespace trainyard {

/// A worker that receives its parameters from another actor. The forward pass computes each layer as soon as its
/// parameters have arrived. Each bucket of gradients is sent as soon as the backward pass has computed it or, without
/// overlap, at the end of the step.
class WorkerStep : public CentralStep {
 public:
  using CentralStep::CentralStep;

 protected:
  /// All passes of a step, and its pushes.
  Ops passes();
  /// Makes the next computation wait for the layer's parameters.
  virtual Ops await_parameters(int layer) = 0;
  /// Pushes the computed gradients of a bucket. It is called in the order of the buckets.
  virtual Ops push(std::size_t bucket) = 0;

 private:
  std::size_t next_bucket_ = 0;

  Ops pass(Pass, int layer, int micro_batch);
  Ops push_ready(int layer, int kernel);
};

}  // namespace trainyard
