#pragma once
#include <array>
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

struct TrainingPlan;

/// The bottleneck of a kernel: arithmetic, memory, or its launch (the GPU's shortest kernel time, or the rate at which
/// the framework issues kernels).
enum class KernelBound : std::uint8_t { compute, memory, launch };
constexpr int kKernelBounds = 3;
const char* name_of(KernelBound);

/// Sums over the kernels of one pass of one micro-batch. Times are those of kernels that run alone on the GPU.
struct KernelTotals {
  Seconds time;
  Flops flops;
  Bytes bytes;                               ///< bytes read and written
  Seconds dispatch;                          ///< part of `time` in which the GPU waits for the framework
  std::array<Seconds, kKernelBounds> parts;  ///< `time` by each kernel's bottleneck

  KernelBound bound() const;      ///< bottleneck with the largest part
  double bound_share() const;     ///< that part of `time`; 0 if there is no time
  double flops_per_byte() const;  ///< 0 if there are no bytes
  KernelTotals& operator+=(const KernelTotals&);
};

struct LayerCost {
  std::string name;
  KernelTotals forward, backward;

  KernelTotals both_passes() const;
  bool same_cost(const LayerCost&) const;
};

/// The compute of a step by layer, on the GPU of one rank. In inference layers have no backward pass.
struct LayerCosts {
  std::string gpu;
  FlopsPerSecond peak;  ///< dense peak in the scenario's precision
  BytesPerSecond memory_bandwidth;
  double ridge = 0;          ///< FLOP/byte at which peak and bandwidth take equally long
  double product_ridge = 0;  ///< `ridge` at the peak and bandwidth that large matrix products achieve
  int micro_batches = 1;
  std::vector<LayerCost> layers;             ///< costs of one micro-batch, in the order of the forward pass
  KernelTotals micro_batch;                  ///< sum of the layers
  std::array<KernelTotals, kKernels> kinds;  ///< sum of the layers for each kind of kernel
  Seconds accumulation;                      ///< per step: adding up the gradients of further micro-batches
  Seconds bucket_copies;                     ///< per step: copying gradients into their buckets and back

  /// Returns the compute time of a step that communication does not slow down. `Result::breakdown.compute` includes
  /// the slow-down.
  Seconds step() const;
};

/// Computes the costs on the GPU of a rank.
LayerCosts layer_costs(const Scenario&, const TrainingPlan&, int rank);

}  // namespace trainyard
