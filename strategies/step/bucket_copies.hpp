#pragma once
#include "strategies/step/step_context.hpp"

namespace trainyard {

/// Gradients are copied into buckets, and back: by kernels of the GPU, or by a coordinator in host memory, which looks
/// for full buckets at each of its ticks (Horovod).
class BucketCopies {
 public:
  /// A bucket that has been exchanged, and the end of that.
  struct Exchanged {
    std::size_t bucket = 0;
    Dep end;
    std::size_t place = 0;  ///< the number of its buffer
    Lane lane = Lane::gradients;
    int step = 0;
  };
  /// At ZeRO stage 2, copies that are there at one time: one is filled while the one before is exchanged (DeepSpeed,
  /// stage_1_and_2.py: a second ipg_buffer with overlap_comm).
  static constexpr std::size_t at_once(bool overlap) { return overlap ? 2 : 1; }

  explicit BucketCopies(StepContext& step) : step_(step) {}

  /// `place`: the number of its buffer, which `last_use` was the last to use.
  Ops fill(std::size_t bucket, std::size_t place, Dep last_use);
  /// The end of filling it.
  Dep filled() const {
    return step_.out.after(step_.plan.coordinated() ? TrainingStreams::coordinator : TrainingStreams::compute);
  }
  /// Back into the gradients, where the plan has copies; the next kernel waits for them.
  Ops copy_out(const std::vector<Exchanged>&);

 private:
  StepContext& step_;

  const Op& wait_for_tick();
  const Op& copy(std::size_t bucket, NameId);
};

}  // namespace trainyard
