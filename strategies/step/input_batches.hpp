#pragma once
#include "strategies/step/step_context.hpp"

namespace trainyard {

/// Samples come in: the first stage waits for each micro-batch before its forward pass, and holds some ahead.
class InputBatches {
 public:
  explicit InputBatches(StepContext& step) : step_(step) {}

  bool used() const;
  /// Receives go out ahead, as far as there are buffers on the GPU: a batch's waits until the batch that had its buffer
  /// before is used up. The next kernel waits for the batch that is due.
  Ops take();
  /// The forward pass of the batch through this stage is over: its buffer is free for another one.
  const Op& release();

 private:
  StepContext& step_;
  int posted_ = 0, taken_ = 0;  // micro-batches
  Dep released_;                // the one before is used up

  const Op& ask();
  const Op& receive();
};

}  // namespace trainyard
