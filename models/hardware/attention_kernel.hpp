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
    Sources sources;
  };
  std::string name, description;
  std::map<std::string, Rates> of_architecture;

  /// Sets the chip's attention rates to those of this kernel and adds their sources to `sources`. A chip keeps its own
  /// rates if the kernel was not measured on its architecture.
  void drive(Gpu&, Sources& sources) const;
};

/// Reads an entry `architectures: {hopper: {forward: …, backward: …}}` with shares in (0, 1]. If `memory` and `tail`
/// are stated too, the shares are those of an `AttentionModel`. Without `architectures` every chip keeps its own rates.
/// Throws UserError with the place.
AttentionKernel read_attention_kernel(const Node& entry);

}  // namespace trainyard
