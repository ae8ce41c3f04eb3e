#pragma once
#include <memory>

#include "sim/machine.hpp"
#include "sim/program.hpp"

namespace trainyard {

/// A link's capacity changes at a time; 0: it fails. Its flows are rerouted where another path is left, else they stall.
struct LinkChange {
  Seconds at;
  LinkId link = 0;
  BytesPerSecond capacity;
};

/// An actor fails, or comes back. An operation that ends at the very time of a failure has ended; all others of the actor
/// have no effect, and its messages in flight, in either direction, are lost. Their other ends keep waiting: a failure
/// is noticed by what does not arrive.
struct ActorChange {
  Seconds at;
  Actor actor = 0;
  std::unique_ptr<Program> program;  ///< what it runs when it is back, with no more streams than before; none: it fails
};

}  // namespace trainyard
