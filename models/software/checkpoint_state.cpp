#include "models/software/checkpoint_state.hpp"

namespace trainyard {

CheckpointState checkpoint_state(double parameters, Precision precision, const Optimizer& optimizer,
                                 const SoftwareStack& stack) {
  const StaticMemory memory = static_memory(parameters, precision, optimizer, stack);
  constexpr Bytes number{8};
  return {{{"weights", memory.parameters},
           {"learning rate", number},
           {"epoch/step", 2 * number},
           {"optimizer state", memory.optimizer}}};
}

Bytes CheckpointState::total() const {
  Bytes sum;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

}  // namespace trainyard
