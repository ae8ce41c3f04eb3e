#pragma once
#include <vector>

#include "sim/names.hpp"
#include "strategies/plan/gradient_shape.hpp"

namespace trainyard {

/// The prepared operations of compression for one bucket.
struct CompressedBucket {
  struct Round {
    std::vector<Op> kernels;
    CompressionRound exchange;  ///< without its kernels
  };
  std::vector<Round> rounds;
  std::vector<Op> decode;
};

/// The compressed buckets of all stages of a plan, made once for all ranks. Empty without compression.
class CompressionTable {
 public:
  CompressionTable(const TrainingPlan&, Names&);
  /// `step` is the step's index in the plan.
  const CompressedBucket& bucket(int pipeline_stage, std::size_t bucket, int step) const;

 private:
  const TrainingPlan& plan_;
  /// Indexed by stage of the warm-up, pipeline stage and bucket.
  std::vector<std::vector<std::vector<CompressedBucket>>> buckets_;
};

}  // namespace trainyard
