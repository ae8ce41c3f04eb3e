#pragma once
#include "sim/transports/transport.hpp"

namespace trainyard {

/// A transport whose flows SimGrid ends when it comes to them: it tells them when it is asked to advance.
class SimgridTransport : public Transport {
 public:
  /// How far SimGrid's clock is to go from `now` to get to `time`, or just behind it where it cannot stop there.
  virtual double step_to(double now, double time) const { return time - now; }
};

}  // namespace trainyard
