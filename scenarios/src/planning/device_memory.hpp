#pragma once
#include <cmath>
#include <utility>

#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// Memory of CUDA's context and libraries on an A100: 1,573 MiB (BigScience, train/tr11-176B-ml/chronicles-prequel.md);
/// unverified for other GPUs.
inline constexpr Bytes kCudaContext{1573.0 * 1024 * 1024};

/// Standard deviation of ln(measured / predicted memory): the root mean square over the families that `trainyard
/// validate memory` compares (see `memory_spread`). That command prints it, and a test compares it with this figure.
inline constexpr double kMemoryDoubt = 0.06;

/// Memory of a rank on its device: what the step allocates, and what the framework and the libraries add. `reserved`
/// includes `allocated`, and `device` includes `reserved`.
struct DeviceMemory {
  Bytes allocated;  ///< the peak of what the step allocates
  Bytes reserved;   ///< memory that the framework's allocator takes
  Bytes device;     ///< `reserved` with CUDA's context and NCCL's buffers: what a tool like nvidia-smi shows
  Bytes needed;     ///< the part of `device` that the allocator cannot give back when memory is short
  Bytes usable;     ///< memory that programs can have

  bool fits() const { return needed <= usable; }
  /// Returns the needed share of the usable memory.
  double share() const { return usable.value > 0 ? needed / usable : HUGE_VAL; }
  /// Probability that the rank runs out of memory: the needed memory has a log-normal spread of `kMemoryDoubt`.
  /// Rounded to a ten-thousandth, since nobody measured such rare events.
  double risk() const;
  /// The interval in which `device` lies with a probability of 80 %.
  std::pair<Bytes, Bytes> interval() const;
};

/// Returns the memory of a rank of a stage whose step allocates `peak` at most. `gpu`: its device.
///
/// CUDA's context and one buffer for each NCCL communicator come besides what is allocated. The allocator keeps
/// `SoftwareStack::reserved_memory` times the peak. With `deepspeed_memory` the terms of DeepSpeed's pipeline and
/// 16-bit optimizers count instead (DeepSpeed 2151c787a and 56c522386): tensors at the stage's boundary, and copies
/// that the update makes of gradients and parameters.
DeviceMemory device_memory(const Scenario&, const TrainingPlan&, std::size_t stage, Bytes peak, const Gpu& gpu);

}  // namespace trainyard
