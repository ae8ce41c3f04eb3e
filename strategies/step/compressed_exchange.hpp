#pragma once
#include "strategies/step/bucket_copies.hpp"
#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

/// Exchanges buckets of gradients in compressed form. Kernels run on the compute stream, since they share the GPU with
/// the backward pass: those before the first exchange when the bucket leaves, all others when the gradients are
/// needed.
class CompressedExchange {
 public:
  using Exchanged = BucketCopies::Exchanged;

  CompressedExchange(StepContext& step, LaneCollectives& collectives) : step_(step), collectives_(collectives) {}

  bool used() const { return step_.plan.compression != nullptr; }
  /// Encodes the bucket, then begins its first exchange.
  Ops begin(const Exchanged&);
  /// Runs the remaining rounds of these buckets, then decodes them. The end of the compute stream is the end of all
  /// this.
  Ops finish(const std::vector<Exchanged>&);

 private:
  StepContext& step_;
  LaneCollectives& collectives_;

  Ops run(const std::vector<Op>& kernels);
  const CompressedBucket& compressed(const Exchanged& exchanged) const {
    return step_.tables.compression().bucket(step_.place.pipeline, exchanged.bucket, exchanged.step);
  }
  Ops exchange(const Exchanged&, int round);
  Ops decode(const Exchanged&, const std::vector<Op>& kernels);
};

}  // namespace trainyard
