#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "sim/index.hpp"
#include "sim/machine.hpp"

namespace trainyard {

using FlowId = TypedIndex<struct FlowTag>;
using FlowToken = std::uint32_t;  ///< the caller's own number of a flow
constexpr std::size_t kUpcoming = 5;

/// Moves bytes over routes, sharing links max–min fair. Latencies are paid before (by the executor); flows have
/// bytes > 0 and at least one link or a rate cap.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual FlowId send(std::span<const LinkUse>, Bytes, BytesPerSecond rate_cap, FlowToken) = 0;
  /// The flow ends without a completion.
  virtual void cancel(FlowId) = 0;
  /// 0 stalls the flows over it until it has a rate again.
  virtual void set_capacity(LinkId, BytesPerSecond) = 0;
  virtual Bytes remaining(FlowId) const = 0;
  /// Rate over capacity of a link, as last shared.
  virtual double used_share(LinkId) const = 0;
  /// When the next flow ends, with links shared as at `now`; −1: none, or SimGrid ends it by itself.
  virtual double next(double now) = 0;
  /// Moves the tokens of flows that have ended up to `until` into `done`; it is `now`. False if there are none.
  virtual bool advance(double now, double until, std::vector<FlowToken>& done) = 0;
  /// Tokens of flows that are among the next to end, the next one first, so that the caller can prefetch their data;
  /// returns how many. None, where that is not known.
  virtual std::size_t upcoming(std::array<FlowToken, kUpcoming>&) const { return 0; }
  /// Can all that flows be taken so much later than it was?
  virtual bool can_shift() const { return false; }
  virtual void shift(double /*seconds*/) {}
  virtual std::size_t flows() const { return 0; }  ///< under way; of transports that can
};

}  // namespace trainyard
