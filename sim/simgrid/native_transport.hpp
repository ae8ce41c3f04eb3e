#pragma once
#include <memory>
#include <span>

#include "sim/simgrid/simgrid_transport.hpp"

namespace trainyard {

/// Flows as SimGrid communications (`Comm::sendto`), with settings under which a transfer moves exactly its bytes at
/// its max–min share: the oracle for any other transport. Needs a SimGrid engine, and links whose capacities have been
/// checked: SimGrid aborts on a zero, negative or undefined bandwidth.
class NativeTransport : public SimgridTransport {
 public:
  explicit NativeTransport(std::span<const Link> links);
  FlowId send(std::span<const LinkUse>, Bytes, BytesPerSecond rate_cap, FlowToken) override;
  void cancel(FlowId) override;
  void set_capacity(LinkId, BytesPerSecond) override;
  Bytes remaining(FlowId) const override;
  double used_share(LinkId) const override;
  double next(double) override { return -1; }
  bool advance(double now, double until, std::vector<FlowToken>& done) override;

 private:
  struct Impl;
  // Shared, because SimGrid's callback stays until the process ends, and checks whether this object still exists.
  std::shared_ptr<Impl> impl_;
};

}  // namespace trainyard
