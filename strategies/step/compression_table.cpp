#include "strategies/step/compression_table.hpp"

#include <algorithm>

#include "strategies/step/compute_phase.hpp"

namespace trainyard {
namespace {

/// A whole tensor of a linear layer or a convolution, or several such; else one column.
void add_matrices(std::vector<GradientMatrix>& parts, const ParameterTensor& tensor, double elements) {
  const double matrix = tensor.in * tensor.out;
  if (matrix == 0 || elements != tensor.elements) return parts.push_back({elements, 1});
  for (double done = 0; done < elements; done += matrix) parts.push_back({tensor.out, tensor.in});
}

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
      Op op;
      op.kind = kernel.work.flops.value > 0 ? Kind::compute : Kind::local;
      op.work = kernel.work;
      op.group = group_;
      op.name = names_.intern(std::string(name_of(phase)) + ": " + kernel.name, static_cast<std::uint8_t>(phase));
      all.push_back(op);
    }
    return all;
  }
};

}  // namespace

GradientShape gradient_shape(const TrainingPlan& plan, const GradientBucket& bucket) {
  GradientShape shape;
  for (const GradientBucket::Part& part : bucket.parts)
    add_matrices(shape.parts, plan.network->layers[part.layer].parameters[part.tensor], part.elements);
  shape.element = plan.gradient_element;
  shape.precision = plan.network->precision;
  const LaneGroups& lane = plan.lane(bucket.experts ? Lane::expert_gradients : Lane::gradients);
  shape.ranks = lane.used() ? static_cast<int>(lane.groups.front().members.size()) : 1;
  shape.warm_up_stage = plan.compression ? plan.compression->warm_up_stages() : 0;
  return shape;
}

CompressedBytes compressed_bytes(const TrainingPlan& plan, int pipeline_stage) {
  CompressedBytes all;
  for (const GradientBucket& bucket : plan.stages[static_cast<std::size_t>(pipeline_stage)].buckets) {
    const GradientShape shape = gradient_shape(plan, bucket);
    all.dense += shape.element * shape.elements();
    for (const CompressionRound& round : plan.compression->compress(shape).rounds)
      all.sent += round.operation == Operation::all_gather ? round.bytes / shape.ranks
                                                           : round.bytes * std::min(round.density, round.whole);
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
  return buckets_[static_cast<std::size_t>(warm_up)][static_cast<std::size_t>(pipeline_stage)][bucket];
}

}  // namespace trainyard
