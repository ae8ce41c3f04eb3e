#pragma once
#include <vector>

#include "sim/names.hpp"
#include "strategies/compression/compressor.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// What compression does to a bucket, its operations made ready.
struct CompressedBucket {
  struct Round {
    std::vector<Op> kernels;
    CompressionRound exchange;  ///< without its kernels
  };
  std::vector<Round> rounds;
  std::vector<Op> decode;
};

/// Of a bucket of a stage, among the ranks that sum it.
GradientShape gradient_shape(const TrainingPlan&, const GradientBucket&);

/// What a rank puts into exchanges in a step, of a plan whose warm-up is over; of all of its buckets.
struct CompressedBytes {
  Bytes dense, sent;
};
CompressedBytes compressed_bytes(const TrainingPlan&, int pipeline_stage);

/// Books what a rank keeps from step to step, and payloads: each stays until its bucket is decoded. Lanes must be made.
void add_compression_memory(TrainingPlan&);

/// The compressed buckets of all stages of a plan, made once for all ranks. Empty without compression.
class CompressionTable {
 public:
  CompressionTable(const TrainingPlan&, Names&);
  /// `step`: of those that are laid out.
  const CompressedBucket& bucket(int pipeline_stage, std::size_t bucket, int step) const;

 private:
  const TrainingPlan& plan_;
  /// By stage of the warm-up, pipeline stage and bucket.
  std::vector<std::vector<std::vector<CompressedBucket>>> buckets_;
};

}  // namespace trainyard
