#pragma once
#include "strategies/step/step_context.hpp"

namespace trainyard {

/// Copies gradients into buckets and back, by kernels of the GPU or by a coordinator in host memory, which looks for full
/// buckets at each of its ticks (Horovod).
class BucketCopies {
 public:
  /// A bucket whose exchange has begun.
  struct ExchangedBucket {
    std::size_t bucket = 0;
    Dep end;
    std::size_t place = 0;  ///< number of its buffer
    Lane lane = Lane::gradients;
    int step = 0;
  };
  /// Returns the number of copies that exist at one time at ZeRO stage 2. With overlap, one copy is filled while the
  /// previous one is exchanged (DeepSpeed, stage_1_and_2.py: a second ipg_buffer with overlap_comm).
  static constexpr std::size_t at_once(bool overlap) { return overlap ? 2 : 1; }

  explicit BucketCopies(StepContext& step) : step_(step) {}

  /// Copies gradients into a bucket. `place` is the number of its buffer; `last_use` is the end of the buffer's last
  /// use.
  Ops fill(std::size_t bucket, std::size_t place, Dep last_use);
  /// Returns the end of the last fill.
  Dep filled() const {
    return step_.out.last_operation(step_.plan.is_coordinated() ? TrainingStreams::coordinator
                                                                : TrainingStreams::compute);
  }
  /// Copies buckets back into the gradients, if the plan has copies. The next kernel waits for the copies.
  Ops copy_out(const std::vector<ExchangedBucket>&);

 private:
  StepContext& step_;

  const Op& wait_for_tick();
  const Op& copy(std::size_t bucket, NameId);
};

}  // namespace trainyard
