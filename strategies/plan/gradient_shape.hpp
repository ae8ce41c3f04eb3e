#pragma once
#include "strategies/compression/compressor.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// Of a bucket of a stage, among the ranks that sum it.
GradientShape gradient_shape(const TrainingPlan&, const GradientBucket&);

/// What a rank puts into exchanges in a step, of a plan whose warm-up is over; of all of its buckets.
struct CompressedBytes {
  Bytes dense, sent;
};
CompressedBytes compressed_bytes(const TrainingPlan&, int pipeline_stage);

/// Books what a rank keeps from step to step, and payloads: each stays until its bucket is decoded. Lanes must be made.
void add_compression_memory(TrainingPlan&);

}  // namespace trainyard
