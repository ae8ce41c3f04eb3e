#include "strategies/step/compression_table.hpp"

#include "strategies/step/compute_phase.hpp"

namespace trainyard {
namespace {

class BucketMaker {
 public:
  explicit BucketMaker(Names& names) : names_(names), group_(names.group(kCompressionGroup, Role::work)) {}

  CompressedBucket make(Compression all) {
    CompressedBucket bucket;
    for (CompressionRound& round : all.rounds) {
      std::vector<Op> kernels = operations(round.kernels, ComputePhase::encode);
      round.kernels.clear();
      bucket.rounds.push_back({std::move(kernels), std::move(round)});
    }
    bucket.decode = operations(all.decode, ComputePhase::decode);
    return bucket;
  }

 private:
  Names& names_;
  GroupId group_;

  std::vector<Op> operations(const std::vector<KernelCall>& kernels, ComputePhase phase) {
    std::vector<Op> all;
    for (const KernelCall& kernel : kernels) {
      all.push_back({.kind = kernel.work.flops.value > 0 ? Kind::compute : Kind::local,
                     .group = group_,
                     .work = kernel.work,
                     .name = names_.intern(std::string(name_of(phase)) + ": " + kernel.name, phase)});
    }
    return all;
  }
};

}  // namespace

CompressionTable::CompressionTable(const TrainingPlan& plan, Names& names) : plan_(plan) {
  if (!plan.compression) return;
  BucketMaker maker(names);
  for (int warm_up = 0; warm_up <= plan.compression->warm_up_stages(); ++warm_up) {
    std::vector<std::vector<CompressedBucket>>& stages = buckets_.emplace_back();
    for (const StagePlan& stage : plan.stages) {
      std::vector<CompressedBucket>& buckets = stages.emplace_back();
      for (const GradientBucket& bucket : stage.buckets) {
        GradientShape shape = gradient_shape(plan, bucket);
        shape.warm_up_stage = warm_up;
        buckets.push_back(maker.make(plan.compression->compress(shape)));
      }
    }
  }
}

const CompressedBucket& CompressionTable::bucket(int pipeline_stage, std::size_t bucket, int step) const {
  const int warm_up = plan_.compression->warm_up_stage(plan_.first_step + step);
  return buckets_[warm_up][pipeline_stage][bucket];
}

}  // namespace trainyard
