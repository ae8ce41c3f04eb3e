#pragma once
#include <memory>

#include "sim/machine.hpp"
#include "sim/program.hpp"

namespace trainyard {

/// A link's capacity changes at a given time; 0: the link fails. Its flows are rerouted if another path is left;
/// otherwise they stall.
struct LinkChange {
  Seconds time;
  LinkId link = 0;
  BytesPerSecond capacity;
  Seconds period = {};  ///< the change repeats after this time, while the run moves; 0: it does not repeat
};

/// An actor fails or comes back. An operation that ends exactly at the time of the failure still has its effect. All
/// other operations of the actor have none, and its messages in flight, in either direction, are lost. The peers keep
/// waiting: they notice a failure only by what does not arrive.
struct ActorChange {
  Seconds time;
  Actor actor = 0;
  /// Program of the actor when it comes back, with no more streams than before. Null: it fails.
  std::unique_ptr<Program> program;
};

}  // namespace trainyard
