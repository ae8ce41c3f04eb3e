#pragma once
#include "strategies/mechanisms/central/central_step.hpp"

namespace trainyard {

/// A worker whose parameters somebody else has: the forward pass takes each layer as soon as its parameters are there,
/// and gradients leave bucket by bucket, as the backward pass makes them or (without overlap) at the end of the step.
class WorkerStep : public CentralStep {
 public:
  using CentralStep::CentralStep;

 protected:
  /// All passes of a step, and its pushes.
  Ops passes();
  /// What is computed next waits for the layer's parameters.
  virtual Ops await_parameters(int layer) = 0;
  /// Of a bucket whose gradients have been computed; in the order of the buckets.
  virtual Ops push(std::size_t bucket) = 0;

 private:
  std::size_t next_bucket_ = 0;

  Ops pass(Pass, int layer, int micro_batch);
  Ops push_ready(int layer, int kernel);
};

}  // namespace trainyard
