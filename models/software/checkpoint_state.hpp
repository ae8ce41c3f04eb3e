#pragma once
#include <string>
#include <vector>

#include "models/software/training_memory.hpp"

namespace trainyard {

/// What a checkpoint holds: everything that training goes on from as if it had never stopped.
struct CheckpointState {
  struct Part {
    std::string name;
    Bytes bytes;
  };
  std::vector<Part> parts;
  Bytes total() const;
};

/// Of the whole model, each parameter once: the weights as they are computed with, the optimizer's states with its fp32
/// master weights, and the few numbers of the training's own (see static_memory for the first two).
CheckpointState checkpoint_state(double parameters, Precision, const Optimizer&, const SoftwareStack&);

}  // namespace trainyard
