#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/op.hpp"

namespace trainyard {

using LinkId = std::int32_t;
/// Kinds that are active on one actor at one time, a bit each.
using KindSet = std::uint8_t;
constexpr KindSet bit(Kind kind) { return static_cast<KindSet>(1U << static_cast<unsigned>(kind)); }

/// One direction of a cable, lane group or bus: a rate that the flows on it share, max–min fair.
struct Link {
  std::string name;
  std::string kind;  ///< "NVLink", "PCIe", "HCA", …: what-ifs and the critical path are by kind
  BytesPerSecond capacity;
};

/// A flow takes `weight` times its rate from `link` (more than 1 where one flow stands for several).
struct LinkUse {
  LinkId link = 0;
  std::int32_t weight = 1;
};

/// A piece of a path between two buffers: a message, or a chunk of it, arrives whole before the next leg takes it up.
struct Leg {
  std::span<const LinkUse> links;
  Picoseconds latency;
  double seconds_per_byte = 0;  ///< of its slowest link, undisturbed
};

/// The links of a path and its latency. The links belong to the machine and stay as long as it does.
struct Route {
  std::span<const LinkUse> links;  ///< of all legs
  Picoseconds latency;             ///< of all legs
  bool reachable = true;
  /// Where buffers on the way (host memory) take a message up and pass it on: its legs, two or more. A message up to
  /// `chunk` goes leg by leg; of a larger one all legs run at once, each a chunk behind the one before.
  std::span<const Leg> legs = {};
  Bytes chunk = {};
  const char* name = "";  ///< what people call such a path ("PIX", "NET"); for traces

  bool store_and_forward(Bytes size) const { return legs.size() > 1 && size <= chunk; }
  /// Until the first bytes of a message that runs over all legs at once arrive at the last one's rate: a chunk's time on
  /// every leg but the slowest.
  Seconds fill() const;
};

struct Cost {
  Seconds duration;
};

/// Prices work and gives routes: the only thing that turns work into time besides sharing.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::span<const Link> links() const = 0;
  /// Undisturbed duration of a compute, local or delay operation.
  virtual Cost price(const Work&, Actor) const = 0;
  /// Unreachable pairs have `reachable` false: the executor reports them, or waits where a link may come back.
  virtual Route route(Actor from, Actor to, PathClass) const = 0;

  /// Does anything slow anything else? If not, `speed` is not asked.
  virtual bool interferes() const { return false; }
  /// Interference: the speed of an operation of `kind` on `actor`, relative to running alone, while the kinds in
  /// `active` (its own included) run there. > 0.
  virtual double speed(Actor, Kind /*kind*/, KindSet /*active*/) const { return 1; }
  /// The links that only this actor's messages use; slowed where speed(actor, send, …) says so.
  virtual std::span<const LinkId> ports(Actor) const { return {}; }

  /// A link failed or came back: routes asked from now on avoid it, or use it again.
  virtual void link_state(LinkId, bool /*up*/) {}

  virtual std::string actor_name(Actor actor) const { return "rank " + std::to_string(actor); }
};

}  // namespace trainyard
