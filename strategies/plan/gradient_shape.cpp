#include "strategies/plan/gradient_shape.hpp"

#include <algorithm>

namespace trainyard {
namespace {

/// Adds the matrices of a tensor: the whole weight of a linear layer, of several experts, of an embedding or of a
/// convolution. Other tensors, and parts of tensors, are one column.
void add_matrices(std::vector<GradientMatrix>& parts, const ParameterTensor& tensor, double elements) {
  const double rows = tensor.in > 0 ? tensor.out : tensor.rows, columns = tensor.in > 0 ? tensor.in : elements / rows;
  if (rows <= 1 || elements != tensor.elements) return parts.push_back({elements, 1});
  for (double done = 0; done < elements; done += rows * columns) parts.push_back({rows, columns});
}

}  // namespace

GradientShape gradient_shape(const TrainingPlan& plan, const GradientBucket& bucket) {
  GradientShape shape;
  for (const GradientBucket::Part& part : bucket.parts)
    add_matrices(shape.parts, plan.network->layers[part.layer].parameters[part.tensor], part.elements);
  shape.element = plan.gradient_element;
  const bool half = element_size(plan.network->precision).value < 4;  // products of fp32 gradients are in fp32
  shape.precision = half && plan.gradient_element.value >= 4 ? Precision::fp32 : plan.network->precision;
  const LaneGroups& lane = plan.lane(bucket.experts ? Lane::expert_gradients : Lane::gradients);
  shape.ranks = lane.is_used() ? static_cast<int>(lane.groups.front().members.size()) : 1;
  shape.warm_up_stage = plan.compression ? plan.compression->warm_up_stages() : 0;
  return shape;
}

CompressedBytes compressed_bytes(const Compressor& compressor, const GradientShape& shape) {
  CompressedBytes all{shape.element * shape.elements(), {}};
  for (const CompressionRound& round : compressor.compress(shape).rounds)
    all.sent += round.operation == Operation::all_gather ? round.bytes / shape.ranks
                                                         : round.bytes * std::min(round.density, round.whole);
  return all;
}

CompressedBytes compressed_bytes(const TrainingPlan& plan, int pipeline_stage) {
  CompressedBytes all;
  for (const GradientBucket& bucket : plan.stages[pipeline_stage].buckets) {
    const CompressedBytes bytes = compressed_bytes(*plan.compression, gradient_shape(plan, bucket));
    all.dense += bytes.dense;
    all.sent += bytes.sent;
  }
  return all;
}

void add_compression_memory(TrainingPlan& plan) {
  for (StagePlan& stage : plan.stages) {
    Bytes state, payloads;
    for (const GradientBucket& bucket : stage.buckets) {
      const GradientShape shape = gradient_shape(plan, bucket);
      state += plan.compression->state(shape);
      Bytes most;
      for (const CompressionRound& round : plan.compression->compress(shape).rounds)
        most = std::max(most, round.bytes * std::min(1.0, round.density * shape.ranks));
      payloads += most;
    }
    const auto hold = [&stage](const char* name, Bytes bytes) {
      if (bytes.value == 0) return;
      stage.memory.parts.push_back({name, MemoryClass::buffers, bytes});
      stage.memory.buffers += bytes;
    };
    hold("kept by compression", state);
    hold("compressed gradients", payloads);
  }
}

}  // namespace trainyard
