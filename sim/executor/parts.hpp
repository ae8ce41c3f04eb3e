#pragma once
#include "sim/executor/streams.hpp"
#include "sim/executor/transfers.hpp"

namespace trainyard::execution {

/// The parts of the executor on which messages, joins, series, rounds and failures are built.
struct Parts {
  Context& context_;
  ActorTable& table_;
  Interference& interference_;
  Streams& streams_;
  Transfers& transfers_;
};

}  // namespace trainyard::execution
