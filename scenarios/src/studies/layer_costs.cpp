#include "scenarios/src/studies/layer_costs.hpp"

#include <algorithm>

#include "scenarios/src/planning/layer_division.hpp"
#include "strategies/plan/training_plan.hpp"
#include "strategies/plan/update_policy.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

Seconds& part(KernelTotals& totals, KernelBound bound) { return totals.parts[static_cast<std::size_t>(bound)]; }

/// Returns the cost of one kernel. Its launch is a separate part; the rest of the time belongs to the longer of compute
/// and memory.
KernelTotals cost_of(const Work& work, const NodeType& node, const SoftwareStack& stack) {
  KernelTotals totals;
  totals.time = kernel_cost(node, stack, work);
  totals.flops = work.flops;
  totals.bytes = work.bytes;
  const Seconds on_gpu = kernel_time(node.gpu, work) / node.gpu_speed;
  totals.dispatch = totals.time - on_gpu;
  if (totals.dispatch > Seconds{0}) {
    part(totals, KernelBound::launch) = totals.time;
    return totals;
  }
  const Seconds launch = node.gpu.kernel_launch / node.gpu_speed;
  Work memory_traffic = work;
  memory_traffic.flops = Flops{};
  const bool memory_limits = kernel_time(node.gpu, memory_traffic) / node.gpu_speed >= on_gpu;
  part(totals, KernelBound::launch) = launch;
  part(totals, memory_limits ? KernelBound::memory : KernelBound::compute) = totals.time - launch;
  return totals;
}

/// Lists the rank's shards of the layers of its pipeline stage.
std::vector<const Layer*> layers_of(const TrainingPlan& plan, int rank) {
  std::vector<const Layer*> layers;
  for (const std::vector<int>& chunk : plan.stage_of(rank).chunks)
    for (const int layer : chunk) layers.push_back(&plan.network->layers[layer]);
  return layers;
}

/// Returns the copy of gradients into a bucket or back. Each element is read and written.
Work bucket_copy(const GradientBucket& bucket, const StagePlan& stage, const TrainingPlan& plan) {
  Work copy;
  copy.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
  copy.precision = stage.optimizer.precision;
  copy.bytes = 2 * bucket.elements * plan.gradient_element;
  return copy;
}

}  // namespace

const char* name_of(KernelBound bound) {
  static constexpr std::array<const char*, kKernelBounds> names{"compute", "memory", "launch"};
  return names.at(static_cast<std::size_t>(bound));
}

KernelBound KernelTotals::bound() const {
  return static_cast<KernelBound>(std::ranges::max_element(parts) - parts.begin());
}

double KernelTotals::bound_share() const {
  return time > Seconds{0} ? parts[static_cast<std::size_t>(bound())] / time : 0;
}

double KernelTotals::flops_per_byte() const { return bytes.value > 0 ? flops.value / bytes.value : 0; }

KernelTotals& KernelTotals::operator+=(const KernelTotals& other) {
  time += other.time;
  flops += other.flops;
  bytes += other.bytes;
  dispatch += other.dispatch;
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] += other.parts[i];
  return *this;
}

KernelTotals LayerCost::both_passes() const {
  KernelTotals totals = forward;
  totals += backward;
  return totals;
}

bool LayerCost::same_cost(const LayerCost& other) const {
  const auto same = [](const KernelTotals& a, const KernelTotals& b) {
    return a.time == b.time && a.flops == b.flops && a.bytes == b.bytes;
  };
  return same(forward, other.forward) && same(backward, other.backward);
}

Seconds LayerCosts::step() const { return micro_batch.time * micro_batches + accumulation + bucket_copies; }

LayerCosts layer_costs(const Scenario& s, const TrainingPlan& plan, int rank) {
  const NodeType& node = s.cluster.type_of_gpu(rank);
  const Gpu& gpu = node.gpu;
  const Gpu::Efficiency& product = gpu.efficiency[static_cast<std::size_t>(Kernel::gemm)];
  LayerCosts costs;
  costs.gpu = gpu.name;
  costs.peak = gpu.peak[static_cast<std::size_t>(s.precision)];
  costs.memory_bandwidth = gpu.memory_bandwidth;
  costs.ridge = costs.peak.value / costs.memory_bandwidth.value;
  costs.product_ridge = costs.ridge * product.flops / product.memory;
  costs.micro_batches = plan.micro_batches_of_layer();
  for (const Layer* rank_layer : layers_of(plan, rank)) {
    const Layer& layer = *rank_layer;
    LayerCost& cost = costs.layers.emplace_back();
    cost.name = layer.name;
    const auto add = [&](KernelTotals& pass, const Work& work) {
      const KernelTotals kernel = cost_of(work, node, s.software);
      pass += kernel;
      costs.kinds[static_cast<std::size_t>(kind_of(work.kernel))] += kernel;
    };
    for (const KernelCall& call : layer.forward) add(cost.forward, call.work);
    if (!s.plan.inference)
      for (const BackwardKernel& call : layer.backward) add(cost.backward, call.work);
    if (!s.plan.inference && !plan.offload.is_used())  // with offload, the CPU adds gradients
      costs.accumulation += accumulation_time(layer, plan.accumulation, node, s.software) * (costs.micro_batches - 1);
    costs.micro_batch += cost.both_passes();
  }
  const bool exchanges = plan.lane(Lane::gradients).is_used() && update_policy_of(plan).sums_gradients(0);
  if (exchanges && plan.bucket_copy && !plan.host_buckets)  // else the CPU copies the gradients, or nothing does
    for (const GradientBucket& bucket : plan.stage_of(rank).buckets)
      costs.bucket_copies += kernel_cost(node, s.software, bucket_copy(bucket, plan.stage_of(rank), plan)) * 2;
  return costs;
}

}  // namespace trainyard
