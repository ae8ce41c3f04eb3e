#pragma once
#include <array>
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

struct TrainingPlan;

/// What holds a kernel up: arithmetic, memory, or being launched at all (the GPU's floor, or the framework that cannot
/// issue kernels faster).
enum class KernelBound : std::uint8_t { compute, memory, launch };
constexpr int kKernelBounds = 3;
const char* name_of(KernelBound);

/// Kernels of one pass of one micro-batch, each as long as while nothing else runs on the GPU.
struct KernelTotals {
  Seconds time;
  Flops flops;
  Bytes bytes;                               ///< read and written
  Seconds dispatch;                          ///< part of `time` by which the framework is slower than the GPU
  std::array<Seconds, kKernelBounds> parts;  ///< `time` by what each kernel waits for

  KernelBound bound() const;      ///< the largest part
  double flops_per_byte() const;  ///< 0 without bytes
  KernelTotals& operator+=(const KernelTotals&);
};

struct LayerCost {
  std::string name;
  KernelTotals forward, backward;

  KernelTotals both() const;
  bool same_cost(const LayerCost&) const;
};

/// Where the compute of a step comes from, on the GPU of one rank.
struct LayerCosts {
  std::string gpu;
  FlopsPerSecond peak;  ///< of the scenario's precision, dense
  BytesPerSecond memory_bandwidth;
  double ridge = 0;          ///< FLOP/byte at which peak and bandwidth take equally long
  double product_ridge = 0;  ///< the same with what large matrix products reach of both
  int micro_batches = 1;
  std::vector<LayerCost> layers;  ///< of one micro-batch, in the order of the forward pass
  KernelTotals micro_batch;       ///< their sum
  Seconds accumulation;           ///< a step: gradients of further micro-batches added
  Seconds bucket_copies;          ///< a step: gradients copied into their buckets and back

  /// Compute of a step that no communication slows: what `Result::breakdown.compute` is beside, but for interference.
  Seconds step() const;
};

/// Of the GPU that this rank runs on.
LayerCosts layer_costs(const Scenario&, const TrainingPlan&, int rank);

}  // namespace trainyard
