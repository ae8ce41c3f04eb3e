#pragma once
#include <map>
#include <string>

#include "models/hardware/gpu.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {

/// A library's flash attention: the share of a chip's peak that the FLOPs of causal attention reach, by architecture.
struct AttentionKernel {
  struct Rates {
    double forward = 1, backward = 1;  ///< shares of the peak for every shape; unused if `tiles` is stated
    AttentionModel tiles;
    double sustained = 0;  ///< `Gpu::sustained_attention`
    Sources sources;
  };
  std::string name, description;
  std::map<std::string, Rates> by_architecture, by_gpu;

  /// Sets the chip's attention rates to those of this kernel on this GPU, or else on its architecture, and adds their
  /// sources to `sources`. A chip keeps its own rates if the kernel was measured on neither.
  void drive(Gpu&, Sources& sources) const;
};

/// Reads an entry `architectures: {hopper: {forward: …, backward: …}}, gpus: {gb300: …}` with shares in (0, 1]. If
/// `memory` and `tail` are stated too, the shares are those of an `AttentionModel`, and its other keys may follow.
/// `sustained` in (0, 1] is the ratio of the rates in long runs to those; without it the chip's clock decides.
/// Without either map every chip keeps its own rates. Throws UserError with the place.
AttentionKernel read_attention_kernel(const Node& entry);

}  // namespace trainyard
