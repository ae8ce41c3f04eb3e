#pragma once
#include <string>
#include <vector>

#include "models/software/training_memory.hpp"

namespace trainyard {

/// Contents of a checkpoint: everything that training needs to go on as if it had never stopped.
struct CheckpointState {
  struct Part {
    std::string name;
    Bytes bytes;
  };
  std::vector<Part> parts;
  Bytes total() const;
};

/// Returns the checkpoint of the whole model, with each parameter once: the weights in the precision of the
/// computation, the optimizer's states with its fp32 master weights (see `static_memory` for both), the learning rate,
/// the epoch and the step.
CheckpointState checkpoint_state(double parameters, Precision, const Optimizer&, const SoftwareStack&);

}  // namespace trainyard
