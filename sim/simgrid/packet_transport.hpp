#pragma once
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "sim/simgrid/simgrid_transport.hpp"
#include "sim/transports/flow_net.hpp"
#include "sim/transports/packet_network.hpp"

namespace trainyard {

/// What crosses the cables of a network goes by TCP, packet by packet: SimGrid's model on ns-3, in which each message is
/// a connection of its own (handshake, slow start, queues, losses). The other links of a route are shared max–min fair,
/// as FlowTransport does it, at no more than the rate of the cables; a message has arrived when both parts of it have.
///
/// ns-3's flows cannot be slowed, stopped or cancelled: one that is cancelled goes on in the network, as what a program
/// has handed to its socket does. Needs SimGrid's engine with these `settings`.
class PacketTransport : public SimgridTransport {
 public:
  /// The network must outlive it.
  PacketTransport(std::span<const Link>, const PacketNetwork&);
  FlowId send(std::span<const LinkUse>, Bytes, BytesPerSecond rate_cap, FlowToken) override;
  void cancel(FlowId) override;
  /// Throws UserError for a cable.
  void set_capacity(LinkId, BytesPerSecond) override;
  Bytes remaining(FlowId) const override;
  /// Of a cable: what all connections over it could send together, over its rate; above 1 where they compete for it.
  double used_share(LinkId) const override;
  double next(double now) override;
  bool advance(double now, double until, std::vector<FlowToken>& done) override;
  double step_to(double now, double time) const override;

  /// Settings of SimGrid's engine. Throws UserError where SimGrid was built without ns-3.
  static std::vector<const char*> settings();

 private:
  struct Way;
  struct Flow;
  struct Impl;
  std::shared_ptr<Impl> impl_;  // SimGrid's callback looks whether it is still there

  const Way& way_of(std::span<const LinkUse>);
};

}  // namespace trainyard
