#pragma once
#include "strategies/step/bucket_copies.hpp"
#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

/// Buckets of gradients that are exchanged compressed. Kernels run on the compute stream: those before the first exchange
/// as the bucket leaves, all others when the gradients are needed, since they share the GPU with the backward pass.
class CompressedExchange {
 public:
  using Exchanged = BucketCopies::Exchanged;

  CompressedExchange(StepContext& step, LaneCollectives& collectives) : step_(step), collectives_(collectives) {}

  bool used() const { return step_.plan.compression != nullptr; }
  /// The bucket is encoded, and its first exchange begins after that.
  Ops begin(const Exchanged&);
  /// Further rounds of such buckets, then what they come to; the compute stream ends with it.
  Ops finish(const std::vector<Exchanged>&);

 private:
  StepContext& step_;
  LaneCollectives& collectives_;

  Ops run(const std::vector<Op>& kernels);
  const CompressedBucket& compressed(const Exchanged& of) const {
    return step_.tables.compression().bucket(step_.at.pipeline, of.bucket, of.step);
  }
  Ops exchange(const Exchanged&, int round);
  Ops decode(const Exchanged&, const std::vector<Op>& kernels);
};

}  // namespace trainyard
