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

/// What a machine knows of a group's flow.
struct KnownGroup {
  Route route;  ///< the routes of all edges as one
  /// Actors for each of which the links carry nothing but what it sends, and the flows of its groups.
  std::vector<Actor> owners;
};

/// How operations that run on an actor at the same time slow each other.
class Contention {
 public:
  virtual ~Contention() = default;
  /// The speed of an operation of `kind` on `actor`, relative to running alone, while the kinds in `active` (its own
  /// included) run there. > 0.
  virtual double speed(Actor, Kind kind, KindSet active) const = 0;
  /// The links that only this actor's messages use; speed(actor, send, …) slows them.
  virtual std::span<const LinkId> ports(Actor) const = 0;
};

/// Prices work and finds routes. Durations come from here, or from sharing links.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual std::span<const Link> links() const = 0;
  /// Undisturbed duration of a compute, local or delay operation.
  virtual Cost price(const Work&, Actor) const = 0;
  /// Unreachable pairs have `reachable` false: the executor reports them, or waits if a link may come back.
  virtual Route route(Actor from, Actor to, PathClass) const = 0;

  /// Null: operations that run at the same time do not slow each other.
  virtual const Contention* contention() const { return nullptr; }
  /// Null: `route_of_group` finds the route, and who owns its links is not known.
  virtual const KnownGroup* known_group(const GroupFlow&) const { return nullptr; }
  /// Equal for actors on which all work takes the same time, alone and beside other work. By default each is of its own.
  virtual std::uint64_t likeness(Actor actor) const { return static_cast<std::uint64_t>(actor); }

  /// A link failed or came back: later routes avoid it, or use it again.
  virtual void link_state(LinkId, bool /*up*/) {}

  /// Why there may be no path between two, to stand before the error that says so: "file:line:column: without …, ".
  virtual std::string cause_of_cut(Actor /*from*/, Actor /*to*/) const { return {}; }

  virtual std::string actor_name(Actor actor) const { return "rank " + std::to_string(actor); }
};

/// The routes of all edges of a group as one: a link that several of them cross is taken as many times.
struct GroupRoute {
  std::vector<LinkUse> links;
  Picoseconds latency;  ///< of the longest one, of a flow that copy engines move
  bool reachable = true;
};
GroupRoute route_of_group(const Machine&, const GroupFlow&);

}  // namespace trainyard
