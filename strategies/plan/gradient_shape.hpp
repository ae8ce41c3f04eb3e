#pragma once
#include "strategies/compression/compressor.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// Returns the gradient shape of a stage's bucket, among the ranks that sum it.
GradientShape gradient_shape(const TrainingPlan&, const GradientBucket&);

/// Bytes that a rank sends into exchanges in a step, for all of its buckets, once the warm-up is over.
struct CompressedBytes {
  Bytes dense, sent;
};
CompressedBytes compressed_bytes(const TrainingPlan&, int pipeline_stage);
/// Returns the bytes of one bucket.
CompressedBytes compressed_bytes(const Compressor&, const GradientShape&);

/// Adds the memory of compression to the plan: the state that a rank keeps from step to step, and payloads, which stay
/// until their bucket is decoded. Lanes must have been made.
void add_compression_memory(TrainingPlan&);

}  // namespace trainyard
