#pragma once
#include "strategies/step/bucket_copies.hpp"
#include "strategies/step/lane_collectives.hpp"

namespace trainyard {

/// Exchanges buckets of gradients in compressed form. Kernels run on the compute stream, since they share the GPU with
/// the backward pass. Those before the first exchange run when the bucket leaves, all others when the optimizer needs
/// the gradients.
class CompressedExchange {
 public:
  using ExchangedBucket = BucketCopies::ExchangedBucket;

  CompressedExchange(StepContext& step, LaneCollectives& collectives) : step_(step), collectives_(collectives) {}

  bool is_used() const { return step_.plan.compression != nullptr; }
  /// Encodes the bucket, then begins its first exchange.
  Ops begin(const ExchangedBucket&);
  /// Runs the remaining rounds of these buckets, then decodes them. The end of the compute stream's last operation is
  /// the end of all of them.
  Ops finish(const std::vector<ExchangedBucket>&);

 private:
  StepContext& step_;
  LaneCollectives& collectives_;

  Ops run(const std::vector<Op>& kernels);
  const CompressedBucket& compressed(const ExchangedBucket& exchanged) const {
    return step_.tables.compression().bucket(step_.place.pipeline, exchanged.bucket, exchanged.step);
  }
  Ops exchange(const ExchangedBucket&, int round);
  Ops decode(const ExchangedBucket&, const std::vector<Op>& kernels);
};

}  // namespace trainyard
