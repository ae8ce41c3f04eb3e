#pragma once
#include "sim/executor/transfers.hpp"

namespace trainyard::execution {

/// Tells the observers the rate of every link in each time step.
class LinkRates {
 public:
  LinkRates(Context& context, Links& links, Transfers& transfers)
      : context_(context), links_(links), transfers_(transfers) {}
  /// Since the last call.
  void record(double until);

 private:
  Context& context_;
  Links& links_;
  Transfers& transfers_;
  IndexedVector<BytesPerSecond, LinkId> rates_;
  double since_ = 0;
};

}  // namespace trainyard::execution
