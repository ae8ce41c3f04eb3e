#pragma once
#include <map>
#include <string>

#include "models/hardware/gpu.hpp"
#include "models/reading/catalog.hpp"

namespace trainyard {

/// A library's flash attention: what share of a chip's peak the FLOPs of causal attention reach, by architecture.
struct AttentionKernel {
  struct Rates {
    double forward = 1, backward = 1;  ///< of the FLOPs alone, whatever the shape, unless there are tiles
    AttentionModel tiles;
    Sources sources;
  };
  std::string name, description;
  std::map<std::string, Rates> of_architecture;

  /// Gives the chip this kernel's rates, and `sources` theirs; a chip of an architecture where the kernel was not
  /// measured keeps its own.
  void drive(Gpu&, Sources& sources) const;
};

/// Reads an entry `architectures: {hopper: {forward: …, backward: …}}`, shares in (0, 1], with `memory` and `tail` where they are
/// of tiles (`AttentionModel`); without them every chip keeps its own. Throws UserError with the place.
AttentionKernel read_attention_kernel(const Node& entry);

}  // namespace trainyard
