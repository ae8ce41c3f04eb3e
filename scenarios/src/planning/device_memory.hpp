#pragma once
#include <array>
#include <cmath>
#include <utility>

#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// Memory of CUDA's context and libraries on an A100: 1,573 MiB (BigScience, train/tr11-176B-ml/chronicles-prequel.md);
/// unverified for other GPUs.
inline constexpr Bytes kCudaContext{1573.0 * 1024 * 1024};

/// The doubt of a memory: ln(measured / predicted) is normal, and its variance is the sum of the squares of the terms
/// that apply. The terms are fitted to measured runs (see `fit_memory_doubt`).
struct MemoryDoubt {
  static constexpr std::array<const char*, 3> kTerms{"any", "unmeasured reserve", "outside"};
  std::array<double, kTerms.size()> spreads{};  ///< standard deviation of each term

  /// Reads scenarios/measured/tables/memory_doubt.csv, once.
  static const MemoryDoubt& shipped();
  /// Returns the standard deviation. `reserve_measured`: see `has_measured_reserve`. `outside`: the memory includes what
  /// allocator and libraries add to what the step allocates; `reserve_spread`: `SoftwareStack::reserved_memory_spread`.
  double spread(bool reserve_measured, bool outside, double reserve_spread = 0) const;
};
/// Returns true if the stack states what its allocator holds besides what the step allocates, as stacks do whose memory
/// somebody measured.
bool has_measured_reserve(const SoftwareStack&);
/// Probability that a rank runs out of memory whose needed memory has this log-normal spread. Rounded to a
/// ten-thousandth, since nobody measured such rare events.
double memory_risk(Bytes needed, Bytes usable, double spread);

/// Memory of a rank on its device: what the step allocates, and what the framework and the libraries add. `reserved`
/// includes `allocated`, and `device` includes `reserved`.
struct DeviceMemory {
  Bytes reserved;     ///< memory that the framework's allocator takes
  Bytes device;       ///< `reserved` with CUDA's context and NCCL's buffers: what a tool like nvidia-smi shows
  Bytes needed;       ///< the part of `device` that the allocator cannot give back when memory is short
  Bytes usable;       ///< memory that programs can have
  Bytes states = {};  ///< parameters, gradients and optimizer states: the part of `needed` that is known exactly
  double spread = 0;  ///< standard deviation of ln(measured / `device`) and of ln(measured / `needed`)

  bool fits() const { return needed <= usable; }
  /// Returns true if the states alone exceed the usable memory, so that no doubt is left.
  bool surely_fails() const { return states > usable; }
  /// Returns the needed share of the usable memory.
  double share() const { return usable.value > 0 ? needed / usable : HUGE_VAL; }
  /// Returns the probability that the device runs out of memory.
  double risk() const { return surely_fails() ? 1 : memory_risk(needed, usable, spread); }
  /// Returns the interval in which `device` lies with this probability (0 to 1, exclusive).
  std::pair<Bytes, Bytes> interval(double probability = 0.8) const;
};

/// Returns the memory of a rank of a stage whose step allocates `peak` at most. `gpu`: its device.
///
/// CUDA's context and one buffer for each NCCL communicator come besides what is allocated. The allocator keeps
/// `SoftwareStack::reserved_memory` times the peak. With `deepspeed_memory` the terms of DeepSpeed's pipeline and
/// 16-bit optimizers count instead (DeepSpeed 2151c787a and 56c522386): tensors at the stage's boundary, and copies
/// that the update makes of gradients and parameters.
DeviceMemory device_memory(const Scenario&, const TrainingPlan&, std::size_t stage, Bytes peak, const Gpu& gpu);

}  // namespace trainyard
