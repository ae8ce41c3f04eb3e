#pragma once
#include "sim/transports/transport.hpp"

namespace trainyard {

/// A transport whose flows are ended by SimGrid: it reports them when it is asked to advance.
class SimgridTransport : public Transport {
 public:
  /// Time by which SimGrid's clock must advance from `now` to reach `time`, or just pass it if it cannot stop there.
  virtual double step_to(double now, double time) const { return time - now; }
};

}  // namespace trainyard
