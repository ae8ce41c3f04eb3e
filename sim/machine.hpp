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
  std::string kind;  ///< "NVLink", "PCIe", "HCA", …: what-ifs and the critical path group links by it
  BytesPerSecond capacity;
};

/// A flow takes `weight` times its rate from `link`: more than 1 where one flow stands for several, less where it is
/// striped over several links.
struct LinkUse {
  LinkId link = 0;
  double weight = 1;
};

/// The part of a route between two buffers: a message, or a chunk of it, arrives whole before the next leg sends it.
struct Leg {
  std::span<const LinkUse> links;
  Picoseconds latency;
  double seconds_per_byte = 0;  ///< of its slowest link, undisturbed
};

/// The links of a path and its latency. The machine owns the links: they live as long as it does.
struct Route {
  std::span<const LinkUse> links;  ///< of all legs
  Picoseconds latency;             ///< of all legs
  bool reachable = true;
  /// The legs, two or more, where buffers on the route (host memory) store and forward. A message of up to `chunk` goes
  /// leg by leg; of a larger one all legs run at once, each a chunk behind the one before.
  std::span<const Leg> legs = {};
  Bytes chunk = {};
  const char* name = "";  ///< the usual name of such a path ("PIX", "NET"), for traces

  bool store_and_forward(Bytes size) const { return legs.size() > 1 && size <= chunk; }
  /// Time to fill the pipeline of legs, for a message that runs over all of them at once: a chunk's time on every leg but
  /// the slowest.
  Seconds fill_time() const;
};

/// What an operation takes. A host launches the operations of an actor one after the other, ahead of them: each ends at
/// the later of `duration` after it begins and `launched` after the host begins to launch it, which takes `host`.
struct Cost {
  Seconds duration;
  Seconds launched = {};    ///< 0: whenever the host comes to it
  Seconds host = {};        ///< until it launches the next one
  bool host_waits = false;  ///< the host launches it once all that it waits for has ended
};

struct GroupFlow;

/// Prices work and finds routes. Durations come from here, or from sharing links.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::span<const Link> links() const = 0;
  /// Undisturbed duration of a compute, local or delay operation.
  virtual Cost price(const Work&, Actor) const = 0;
  /// Unreachable pairs have `reachable` false: the executor reports them, or waits if a link may come back.
  virtual Route route(Actor from, Actor to, PathClass) const = 0;

  /// Do concurrent operations slow each other? If not, `speed` is not called.
  virtual bool interferes() const { return false; }
  /// Interference: the speed of an operation of `kind` on `actor`, relative to running alone, while the kinds in
  /// `active` (its own included) run there. > 0.
  virtual double speed(Actor, Kind /*kind*/, KindSet /*active*/) const { return 1; }
  /// The links that only this actor's messages use; speed(actor, send, …) slows them.
  virtual std::span<const LinkId> ports(Actor) const { return {}; }

  /// The routes of all edges of a group as one, where the machine knows it already; null: `route_of_group` finds it.
  virtual const Route* group_route(const GroupFlow&) const { return nullptr; }
  /// Do the links of a group's flow carry nothing but what this actor sends, and the flows of its groups? False: maybe not.
  virtual bool lone_links(Actor, const GroupFlow&) const { return false; }
  /// Equal for actors on which all work takes the same time, alone and beside other work. By default each is of its own.
  virtual std::uint64_t likeness(Actor actor) const { return static_cast<std::uint64_t>(actor); }

  /// A link failed or came back: later routes avoid it, or use it again.
  virtual void link_state(LinkId, bool /*up*/) {}

  /// Why there may be no path between two, to stand before the error that says so: "file:line:column: without …, ".
  virtual std::string cause_of_cut(Actor /*from*/, Actor /*to*/) const { return {}; }

  virtual std::string actor_name(Actor actor) const { return "rank " + std::to_string(actor); }
};

}  // namespace trainyard
