#pragma once
#include <memory>
#include <span>
#include <vector>

#include "sim/simgrid/simgrid_transport.hpp"
#include "sim/transports/flow_net.hpp"
#include "sim/transports/packet_network.hpp"

namespace trainyard {

/// Messages cross the cables of a network by TCP, packet by packet: SimGrid's model on ns-3, in which each message is a
/// connection of its own (handshake, slow start, queues, losses). The other links of a route are shared max–min fair as
/// in FlowTransport, at most at the rate of the cables. A message has arrived when both parts have.
///
/// ns-3's flows cannot be slowed, stopped or cancelled. A cancelled flow continues in the network, as data does that a
/// program has handed to its socket. Needs a SimGrid engine with these `settings`.
class PacketTransport : public SimgridTransport {
 public:
  /// The network must outlive it.
  PacketTransport(std::span<const Link>, const PacketNetwork&);
  FlowId send(std::span<const LinkUse>, Bytes, BytesPerSecond rate_cap, FlowToken) override;
  void cancel(FlowId) override;
  /// Throws UserError if the link is a cable.
  void set_capacity(LinkId, BytesPerSecond) override;
  Bytes remaining(FlowId) const override;
  /// For a cable: the sum of the rates at which its connections could send, divided by its rate; above 1 if they
  /// compete.
  double used_share(LinkId) const override;
  double next(double now) override;
  bool advance(double now, double until, std::vector<FlowToken>& done) override;
  double step_to(double now, double time) const override;

  /// Settings of SimGrid's engine. Throws UserError if SimGrid was built without ns-3.
  static std::vector<const char*> settings();

 private:
  struct PacketRoute;
  struct Flow;
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared: SimGrid's callback checks whether it still exists

  const PacketRoute& route_parts(std::span<const LinkUse>);
};

}  // namespace trainyard
