#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "sim/index.hpp"
#include "sim/machine.hpp"

namespace trainyard {

/// The implementation that shares links: our solver (fast), SimGrid's own communications (the reference), or TCP packet
/// by packet on the cables that carry it (SimGrid's model on ns-3; slow). SimGrid runs in a process of its own.
enum class TransportKind : std::uint8_t { flow, native, packets };
inline constexpr std::array kTransportNames{"flow", "native", "packets"};
constexpr TransportKind kDefaultTransport = TransportKind::flow;

using FlowId = TypedIndex<struct FlowTag>;
using FlowToken = std::uint32_t;      ///< the caller's own number of a flow
constexpr std::size_t kUpcoming = 5;  ///< largest number of flows that `upcoming` names

/// Moves bytes over routes and shares links max–min fair. The executor pays latencies before a flow starts. Flows
/// have bytes > 0 and at least one link or a rate cap.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual FlowId send(std::span<const LinkUse>, Bytes, BytesPerSecond rate_cap, FlowToken) = 0;
  /// Removes a flow before its end.
  virtual void cancel(FlowId) = 0;
  /// Changes the capacity of a link. 0 stalls the flows over it until it is positive again.
  virtual void set_capacity(LinkId, BytesPerSecond) = 0;
  virtual Bytes remaining(FlowId) const = 0;
  /// Returns the rate of a link divided by its capacity, as last shared.
  virtual double used_share(LinkId) const = 0;
  /// Time at which the next flow ends while links are shared as at `now`; −1: none, or SimGrid ends it by itself.
  virtual double next(double now) = 0;
  /// Moves the tokens of flows that have ended by `until` into `done`; the time is `now`. Returns false if there are
  /// none.
  virtual bool advance(double now, double until, std::vector<FlowToken>& done) = 0;
  /// Writes the tokens of some flows that end next, the very next one first, so that the caller can prefetch their
  /// data. Returns their number; 0 if the transport does not know them.
  virtual std::size_t upcoming(std::array<FlowToken, kUpcoming>&) const { return 0; }
  /// Returns true if all times of the flows can be shifted (see `shift`).
  virtual bool can_shift() const { return false; }
  virtual void shift(double /*seconds*/) {}
  virtual std::size_t flows() const { return 0; }  ///< number of flows under way, from transports that can shift
};

}  // namespace trainyard
